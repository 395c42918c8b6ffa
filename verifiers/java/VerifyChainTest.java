// Tests VerifyChain with nothing but the JDK and git: javac -d OUT *.java && java -cp OUT VerifyChainTest
// The events and ids are those of docs/format.md section 14; the signatures were made by ssh-keygen -Y sign.

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;
import java.util.stream.*;
import java.util.zip.DeflaterOutputStream;

public final class VerifyChainTest {
    private static final String[] EVENTS = {
        q("{'actor':'host','data':{'agent.name':'helper'},'epoch':1,'prev':null,'salt':'AAECAwQFBgcICQoLDA0ODw',"
            + "'seq':1,'session':'demo','ts':'2026-01-02T03:04:05.678Z','type':'session.start','v':1}"),
        q("{'actor':'user','data':{'parts':[{'content':'What is on my list?','type':'text'}],'role':'user'},'epoch':1,"
            + "'prev':'bd6532406ce87cd1e8afe0eb7425418fd8232d5ceb1103fda6ccf66adc902f29',"
            + "'salt':'EBESExQVFhcYGRobHB0eHw',"
            + "'seq':2,'session':'demo','ts':'2026-01-02T03:04:06.000Z','turn':'t1','type':'message','v':1}"),
        q("{'actor':'assistant','data':{'parts':[{'content':{'$gj:file':1},'type':'text'}],'role':'assistant'},"
            + "'epoch':1,'files':[{'media_type':'text/plain; charset=utf-8','name':'list.txt',"
            + "'sha256':'6e0c531b9de9adaa9fed63bbafb3760e91758f5f54261617e67b3b51d6607f23','size':10}],"
            + "'prev':'5215d3a519d13b7e2e11e35ea309b9c4a85836eeee85cb4161dcc023892d4b78',"
            + "'salt':'ICEiIyQlJicoKSorLC0uLw',"
            + "'seq':3,'session':'demo','ts':'2026-01-02T03:04:05.999Z','turn':'t1','type':'message','v':1}")};
    private static final String[] HASHES = {
        "bd6532406ce87cd1e8afe0eb7425418fd8232d5ceb1103fda6ccf66adc902f29",
        "5215d3a519d13b7e2e11e35ea309b9c4a85836eeee85cb4161dcc023892d4b78",
        "b58139fd8bbf0445fa0cfda81e089c7c836f6210cc0908a294d1e4c382862cff"};
    private static final String[] COMMITS = {
        "ea22b17df5623f903dba505fff38f0491ccf985a", "2ebc0fc83308bd8cc4d9f15259ea48888b6ac935",
        "cc799c82e58cdca2a1b57af48677ea2d32212205"};
    private static final String SIDE_FILE = "oats\nmilk\n";

    /** SSHSIG blobs over "a message\n", namespace gitjournal, by kind of key. */
    private static final String[][] SIGNATURES = {
        {"ssh-ed25519",
            "U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgN5V4qwwsyxXHDSOIQtPCrYGZrU+9HPQ8a5GMxz1zrmsAAAAKZ2l0"
            + "am91cm5hbAAAAAAAAAAGc2hhNTEyAAAAUwAAAAtzc2gtZWQyNTUxOQAAAED9WbbsQliQIEPn0xheEeLs/0LDTh57ZIqSzWXs"
            + "q9QwOYc3Myd9x7+sQ0dvoTg618oJwb0cE7t3SjTf6T9KA4gC"},
        {"ecdsa-sha2-nistp256",
            "U1NIU0lHAAAAAQAAAGgAAAATZWNkc2Etc2hhMi1uaXN0cDI1NgAAAAhuaXN0cDI1NgAAAEEEpROajbYvWjWnysenpZyE9eaz"
            + "MEoT1XNdZAW9pshkSOmPrYRKNWUJheUz/C3FDSi6C0aKPmBi4Bl/EzWJbjfAUgAAAApnaXRqb3VybmFsAAAAAAAAAAZzaGE1"
            + "MTIAAABkAAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAABJAAAAIEZ0KyKC7K6NFcl356Qi5zDBVrISZTaOtCWeTjBDYjKQAAAA"
            + "IQDuH/qFf4kyEgAxaBHLhRvjwIZE/uyM9SmrP8/gsDOlUw=="},
        {"ecdsa-sha2-nistp384",
            "U1NIU0lHAAAAAQAAAIgAAAATZWNkc2Etc2hhMi1uaXN0cDM4NAAAAAhuaXN0cDM4NAAAAGEEBnFwfOb/UW8Vua5Fsm054D8d"
            + "SDqLvbz1CVoaWmYxUvm845YI1Or8pNZ0Op925nQ8E66pXHaoaR+C26R8huXd9vEsEzad+tmSmBCekdWfOrd/BOiUXvZ2q1wr"
            + "oP6VeeAhAAAACmdpdGpvdXJuYWwAAAAAAAAABnNoYTUxMgAAAIUAAAATZWNkc2Etc2hhMi1uaXN0cDM4NAAAAGoAAAAxAMry"
            + "EJEgAk6Mu0IeYjeFDVgZdB+Wio3XCVXVDBn1hfmDRVBLUG45S1NhOj779JaoPwAAADEA1CH0WIxgzKc8d2sIPPbGU5t9uAb+"
            + "oRUfknTb/ZGK7aG2hyWG/j8K0tRT65iSr5TH"},
        {"ssh-rsa",
            "U1NIU0lHAAAAAQAAARcAAAAHc3NoLXJzYQAAAAMBAAEAAAEBAMUwgVhrbDui+jlX8XUpkj9opP249WHwPJcvvsyGL/WLYHdb"
            + "vqgsXmgRarYno3yemJGUCeC1xUEqvUnvqlv2/1Xz5wEyLLgBUDd642HWx953Z75eVsN0gQ5e9b4ZQkJk3CiFD+Q8N8WVfGk8"
            + "SMT+p2WawgB7guYKcLZIaZuzzT795ENVVHW9yn2YfyY0uCr+xMtt+6zPkIuQ8wAeY3NKcDOZ0WuGnXVAF+X100v+/+KcuduF"
            + "npE3WgNw6fE8/Vs4789Hyu8pbvzYCBelgkrNaD1fVDWcEWhFycl+NhY+O1HscJfp/0kvpdzA/DGa9mjWQXvA9MsdtW3TdVpW"
            + "QxTZU70AAAAKZ2l0am91cm5hbAAAAAAAAAAGc2hhNTEyAAABFAAAAAxyc2Etc2hhMi01MTIAAAEAYwOxzuJvREEEqGm1kMCF"
            + "cDb2FV8WWKIdkcpxvp7sxA5710Y37XM3RonNXZ1BbaV96VlnC1YT49rRYdNUmjLWGB5wqnivAhfJF1s+f9c11TNCDNIRpCqm"
            + "H4lyYXS9TzY54aeuu7RFP+oc1nLQSp4EM6F9qlDj6444vntbLXVoJzEgZiVaDoe3z0zO476OrwD+6plwJSaAaA2mN/wex7l4"
            + "ZMbiTQ48zymSMX2AtPTz/JQ/yFgjKi5Mqq1iUfkbvEjyxhx09zeWb99GoKjFIC/ytSzGaVGtZ7fagOssdo+/uPjZftCHUIZL"
            + "/HIvvnpc5RSqs/XUdMztnneXyDcIia+lpg=="},
        {"ecdsa-sha2-nistp521",
            "U1NIU0lHAAAAAQAAAKwAAAATZWNkc2Etc2hhMi1uaXN0cDUyMQAAAAhuaXN0cDUyMQAAAIUEAXd7K2a/Kmkxr+de9Y8/OkUC"
            + "dNjO3WnQol+VlWy3D9DQ/jt4879YLvkBsoR/AR7lY3ibiUWrZV2HLfJ6/eoQ8SXdAQO6CsjMoJFlPZXU4BjmJ33IISXJ64iw"
            + "rP437gDxbt7NdwYX4+go/MZ2hwXSaVJe4kKjRmRYVMYGjjPkzBCBznHVAAAACmdpdGpvdXJuYWwAAAAAAAAABnNoYTUxMgAA"
            + "AKYAAAATZWNkc2Etc2hhMi1uaXN0cDUyMQAAAIsAAABCAS+pDRPlbmCWJlsAwJRD3QAxxw9iGusf0sDkRj/ZXLOf8JVcimq4"
            + "5xz71YNps1LDf0OiTs9DWNlk1nD7NiE2ImQ0AAAAQXbqZ7hQ9+42eqPuHfe8WbchqjUlczqqV3WcMM4eGRwN9z49uchWkQka"
            + "u9gFmY+vuLxW/DLREccC0/PYAMsv46NH"}};

    /** JSON is written with single quotes here. */
    private static String q(String text) { return text.replace('\'', '"'); }

    private static int failures;
    private static int checks;

    private static void equal(String what, Object wanted, Object found) {
        checks++;
        if (String.valueOf(wanted).equals(String.valueOf(found))) return;
        failures++;
        System.err.println(what + ": wanted " + wanted + ", found " + found);
    }

    public static void main(String[] args) throws Exception {
        numbers();
        json();
        names();
        events();
        members();
        merkle();
        signatures();
        signers();
        Path folder = Files.createTempDirectory("verify-chain-test");
        try {
            exports(folder);
            repositories(folder);
            usage(folder);
        } finally {
            delete(folder);
        }
        System.out.println(checks + " checks, " + failures + " failed");
        System.exit(failures == 0 ? 0 : 1);
    }

    // ------------------------------------------------------------------------------------------------------------ JSON

    private static void numbers() {
        String[] printed = {"0", "1", "-1", "0.1", "0.30000000000000004", "1.5", "100", "4.35", "123456.789",
            "0.000001",
            "1e-7", "1.5e-7", "5e-324", "2.2250738585072014e-308", "5.684341886080802e-14", "9007199254740991",
            "4503599627370495.5", "100000000000000000000", "1e+21", "1.7976931348623157e+308", "2e-323", "0.00001"};
        for (String text : printed) equal("number", text, VerifyChain.Json.print(Double.parseDouble(text), 1));
        Random random = new Random(1);
        for (int i = 0; i < 20_000; i++) {
            double value = Double.longBitsToDouble(random.nextLong());
            if (Double.isNaN(value) || Double.isInfinite(value)) continue;
            String text = VerifyChain.Json.print(value, 1);
            equal("reads back " + text, value, Double.parseDouble(text));
            checks--;
        }
    }

    private static String scan(String latin) {
        byte[] text = VerifyChain.latin(q(latin));
        try {
            new VerifyChain.Json().scan(Arrays.copyOf(text, text.length + 1), text.length);
            return "good";
        } catch (VerifyChain.Stop stop) {
            return stop.code;
        }
    }

    private static void json() {
        String[] good = {"{}", "[]", "null", "[true,false]", "''", "{'a':[1,-1,0.5]}",
            "'\\u0000\\u001f\\b\\t\\n\\f\\r\\\\/'",
            "'\u007f\u00c2\u0080\u00ed\u009f\u00bf\u00f4\u008f\u00bf\u00bf'", "9007199254740991", "-9007199254740991",
            "{'':0,'1':0,'a':0,'aa':0}", "{'\\n':0,'1':0}", "{'\u00f0\u0090\u0080\u0080':0,'\u00ef\u00bf\u00bf':0}",
            "[".repeat(64) + "]".repeat(64)};
        String[] other = {" {}", "{} ", "[1, 2]", "'\\/'", "'\\u0041'", "'\\u001F'", "'\\u000a'", "'\\ud83d\\ude00'",
            "1.0", "1e3", "0.10", "1E-7", "0.0000001", "1e-999", "{'b':0,'a':0}", "5.6843418860808015e-14",
            "{'\u00ef\u00bf\u00bf':0,'\u00f0\u0090\u0080\u0080':0}", "0." + "0".repeat(400) + "1e400"};
        String[] bad = {"", " ", "{", "}", "[1,]", "[,1]", "{'a'}", "{'a':1,}", "{a:1}", "{} {}", "01", "1.", ".5",
            "+1",
            "-", "-0", "-0.0", "-1e-999", "9007199254740992", "-9007199254740992", "1e400", "NaN", "'", "'\\", "'\\u12",
            "'\\x'", "'\u0001'", "'\n'", "'\u00ff'", "'\u00c0\u00af'", "'\u00e0\u0080\u0080'", "'\u00ed\u00a0\u0080'",
            "'\u00f4\u0090\u0080\u0080'", "'\u00c3'", "\u00ef\u00bb\u00bf{}", "'\\ud800'", "'\\udc00'",
            "'\\ud800\\u0041'",
            "{'a':0,'a':0}", "{'a':0,'b':0,'a':0}", "{'a':0,'\\u0061':0}", "{'b':0,'a':0,'b':0}", "tru", "nul",
            "[".repeat(65) + "]".repeat(65), "{}\0", "\0", "[".repeat(1_000_000)};
        for (String text : good) equal("JSON " + text, "good", scan(text));
        for (String text : other) equal("JSON " + text, "not-canonical", scan(text));
        for (String text : bad) equal("JSON " + (text.length() > 99 ? "deep" : text), "bad-json", scan(text));
    }

    private static void names() {
        String[][] names = {{"s", "s"}, {"a b/c", "a%20b%2Fc"}, {".a", "%2Ea"}, {"-a", "%2Da"}, {"a..b", "a%2E.b"},
            {"a.", "a%2E"}, {"a.lock", "a%2Elock"}, {"\u00f6", "%C3%B6"}, {"a-.b", "a-.b"}, {"%", "%25"}};
        for (String[] name : names) {
            equal("encode", name[1], VerifyChain.encode(name[0]));
            equal("decode", name[0], VerifyChain.decode(name[1]));
        }
        String[] others = {"", "a%20b%2fc", "%41", "a b", ".a", "a.lock", "%", "%C3", "%00", "%C2%85", "a".repeat(201)};
        for (String part : others) equal("decode " + part, null, VerifyChain.decode(part));
    }

    // ---------------------------------------------------------------------------------------------------------- events

    private static String read(VerifyChain.Event event, String text) {
        byte[] bytes = VerifyChain.utf8(text);
        return event.read(Arrays.copyOf(bytes, bytes.length + 1), bytes.length);
    }

    /** The header of event 2 as format.md shows it, without the payload. */
    private static String withheld() {
        String digest = "'data_sha256':'617ccc2cf7cfcc564a2d37abf31cd08d3d49198a46cbffa65528293b21d5ea7a'";
        return EVENTS[1].replaceFirst("\"data\":.*(?=,\"epoch\")", q(digest)).replaceFirst("\"salt\":\"[^\"]*\",", "");
    }

    private static void events() {
        VerifyChain.Event event = new VerifyChain.Event();
        for (int i = 0; i < 3; i++) {
            equal("event", null, read(event, EVENTS[i]));
            equal("event hash", HASHES[i], VerifyChain.HEX.formatHex(event.hash));
        }
        equal("side file", 10, event.files.get(0).size());
        equal("withheld", null, read(event, withheld()));
        equal("withheld", HASHES[1], VerifyChain.HEX.formatHex(event.hash));
    }

    private static void members() {
        String o = "\u00f6";
        String[][] changes = {
            {"bad-json", "'v':1", "'v':1,'v':1"}, {"not-canonical", "'v':1", "'v':1.0"}, {"bad-version", "'v':1",
            "'v':2"},
            {"bad-version", ",'v':1", ""}, {"bad-version", "'v':1", "'v':'1'"}, {"bad-member", "'v':1", "'v':1,'x':1"},
            {"bad-member", "'actor':'user',", ""}, {"bad-seq", "'seq':2", "'seq':0"}, {"bad-seq", "'seq':2",
            "'seq':2.5"},
            {"bad-seq", "'seq':2", "'seq':100000000"}, {"bad-epoch", "'epoch':1", "'epoch':0"},
            {"bad-epoch", "'epoch':1", "'epoch':null"}, {"bad-member", "'actor':'user'", "'actor':'-user'"},
            {"bad-member", "'t1'", "''"}, {"bad-member", "-02T", "-32T"}, {"bad-member", "2026-", "1969-"},
            {"bad-member", ":06.", ":60."}, {"bad-member", "'message'", "'a..b'"},
            {"bad-member", "'message'", "'" + "a".repeat(65) + "'"}, {"bad-member", "'demo'", "''"},
            {"bad-member", "'demo'", "'\\n'"}, {"bad-member", "'demo'", "'" + o.repeat(101) + "'"},
            {null, "'demo'", "'" + o.repeat(100) + "'"}, {"bad-member", "EBESExQVFhcYGRobHB0eHw",
            "EBESExQVFhcYGRobHB0eHx"},
            {"bad-member", "'bd65", "'BD65"}, {"broken-link", "'prev':'" + HASHES[0] + "'", "'prev':null"},
            {"bad-fork", "'message'", "'session.start'"}, {null, "'message'", "'session.fork'"},
            {"bad-member", "'What is on my list?'", "{'$gj:json':1}"}, {null, "'What is on my list?'",
            "{'$gj:b64':'?'}"},
            {"bad-member", "'What is on my list?'", "{'$gj:x':''}"}, {"bad-member", "'content'", "'$gj:json'"},
            {"bad-member", "'What is on my list?'", "{'$gj:file':1}"}};
        VerifyChain.Event event = new VerifyChain.Event();
        for (String[] change : changes) {
            equal(change[2], change[0], read(event, EVENTS[1].replace(q(change[1]), q(change[2]))));
        }
        String[] tags = {"{'$gj:ref':[1,'a']}", "{'$gj:ref':[2,'']}", "{'$gj:ref':[1,'','']}", "{'$gj:ref':[1]}",
            "{'$gj:file':2}", "{'$gj:file':0}", "{'$gj:file':1.5}", "{'$gj:file':'1'}", "{'$gj:file':1,'a':1}"};
        String[] good = {"{'$gj:ref':[1,'']}", "{'$gj:ref':[1,'/a']}", "{'$gj':1}"};
        String there = q("{'$gj:file':1}");
        for (String tag : tags) equal(tag, "bad-member", read(event, EVENTS[2].replace(there, q(tag))));
        for (String tag : good) equal(tag, null, read(event, EVENTS[2].replace(there, q(tag))));
        equal("withheld branch", "bad-fork", read(event, withheld().replace("\"message\"", "\"session.branch\"")));
        equal("withheld seal", "bad-seal", read(event, withheld().replace("\"message\"", "\"session.seal\"")));
        String salt = q("'salt':'EBESExQVFhcYGRobHB0eHw','seq'");
        equal("withheld with salt", "bad-member", read(event, withheld().replace("\"seq\"", salt)));
    }

    // ---------------------------------------------------------------------------------------------------- Merkle trees

    private static byte[] root(List<byte[]> leaves) {
        if (leaves.size() == 1) return VerifyChain.Merkle.leaf(leaves.get(0));
        int k = Integer.highestOneBit(leaves.size() - 1);
        return VerifyChain.Merkle.node(root(leaves.subList(0, k)), root(leaves.subList(k, leaves.size())));
    }

    /** RFC 9162, 2.1.3.1. */
    private static List<byte[]> path(int m, List<byte[]> leaves) {
        if (leaves.size() == 1) return new ArrayList<>();
        int k = Integer.highestOneBit(leaves.size() - 1);
        List<byte[]> left = leaves.subList(0, k);
        List<byte[]> right = leaves.subList(k, leaves.size());
        List<byte[]> path = m < k ? path(m, left) : path(m - k, right);
        path.add(root(m < k ? right : left));
        return path;
    }

    /** RFC 9162, 2.1.4.1. */
    private static List<byte[]> proof(int m, List<byte[]> leaves, boolean whole) {
        if (m == leaves.size()) return new ArrayList<>(whole ? List.of() : List.of(root(leaves)));
        int k = Integer.highestOneBit(leaves.size() - 1);
        List<byte[]> left = leaves.subList(0, k);
        List<byte[]> right = leaves.subList(k, leaves.size());
        List<byte[]> path = m <= k ? proof(m, left, whole) : proof(m - k, right, false);
        path.add(root(m <= k ? right : left));
        return path;
    }

    private static void merkle() {
        List<byte[]> leaves = new ArrayList<>();
        VerifyChain.Rows rows = new VerifyChain.Rows(32);
        VerifyChain.Merkle merkle = new VerifyChain.Merkle();
        for (int n = 1; n <= 40; n++) {
            leaves.add(VerifyChain.sha256(new byte[] {(byte) n}));
            rows.add(leaves.get(n - 1));
            byte[] root = root(leaves);
            if (n % 3 != 0) equal("root", true, Arrays.equals(root, merkle.root(rows, n)));
            for (int i = 0; i < n; i++) {
                List<byte[]> path = path(i, leaves);
                equal("inclusion", true, VerifyChain.Merkle.includes(leaves.get(i), i, n, path, root));
                equal("other index", n == 1, VerifyChain.Merkle.includes(leaves.get(i), (i + 1) % n, n, path, root));
                List<byte[]> first = leaves.subList(0, i + 1);
                List<byte[]> proof = proof(i + 1, leaves, true);
                equal("consistency", true, VerifyChain.Merkle.isConsistent(i + 1, root(first), n, root, proof));
                proof.add(root);
                equal("longer path", false, VerifyChain.Merkle.isConsistent(i + 1, root(first), n, root, proof));
            }
        }
    }

    // ------------------------------------------------------------------------------------------------------ signatures

    private static String armour(String blob) {
        String lines = blob.replaceAll("(.{70})", "$1\n");
        return VerifyChain.SshSignature.BEGIN + "\n" + lines + "\n" + VerifyChain.SshSignature.END + "\n";
    }

    private static String kind(String armour, String namespace, String message, String key) {
        try {
            byte[] found = VerifyChain.SshSignature.key(armour, namespace, VerifyChain.utf8(message), key);
            return found == null ? "not checked" : "right";
        } catch (VerifyChain.Stop stop) {
            return stop.code;
        }
    }

    private static void signatures() {
        for (String[] one : SIGNATURES) {
            boolean checked = !one[0].endsWith("521");
            String good = armour(one[1]);
            equal(one[0], checked ? "right" : "not checked", kind(good, "gitjournal", "a message\n", null));
            String wrong = checked ? "bad-signature" : "not checked";
            equal(one[0] + " message", wrong, kind(good, "gitjournal", "another\n", null));
            equal(one[0] + " namespace", "bad-signature", kind(good, "git", "a message\n", null));
            equal(one[0] + " key", "bad-signature", kind(good, "gitjournal", "a message\n", "SHA256:x"));
            equal(one[0] + " text", "bad-signature", kind("x" + good, "gitjournal", "a message\n", null));
            byte[] blob = VerifyChain.base64(one[1]);
            for (int i = 0; i < blob.length && checked; i++) {
                blob[i] ^= 4;
                String found = kind(armour(VerifyChain.base64(blob)), "gitjournal", "a message\n", null);
                boolean kindChanged = found.equals("not checked") && i < 64;
                equal(one[0] + " byte " + i, true, found.equals("bad-signature") || kindChanged);
                blob[i] ^= 4;
            }
        }
    }

    private static void signers() throws IOException {
        byte[] blob = new VerifyChain.Bytes().add(VerifyChain.Wire.string(VerifyChain.latin("ssh-ed25519")))
            .add(VerifyChain.Wire.string(new byte[32])).copy();
        String key = "ssh-ed25519 " + VerifyChain.base64(blob);
        String[][] lines = {{"git", "a KEY"}, {"git", "a namespaces='git,x' KEY comment"}, {"no",
            "a namespaces='g*,!git' KEY"},
            {"git", "a namespaces='" + "*".repeat(60) + "t*' KEY"}, {"no", "a namespaces='" + "*".repeat(60) + "x' KEY"},
            {"git", "a NameSpaces='g?t'\tKEY"}, {"no", "a cert-authority KEY"}, {"no", "# KEY"}, {"no", ""}, {"2", "a"},
            {"git", "a valid-after='19700101',valid-before='209901010000Z' KEY"}, {"2",
            "a valid-before='20011301' KEY"},
            {"no", "a valid-before='20010909014640' KEY"}, {"git", "a valid-before='20010909014641Z' KEY"},
            {"2", "a " + key.substring(0, 30)}, {"2", "a valid-before=20010101 KEY"}, {"2", "a namespaces KEY"},
            {"2", "a namespaces='a',namespaces='a' KEY"}, {"2", "a namespaces='a', KEY"}, {"2", "KEY"}};
        Path file = Files.createTempFile("signers", "");
        for (String[] line : lines) {
            Files.writeString(file, "\n" + q(line[1]).replace("KEY", key) + "\r\n");
            String found = "no";
            try {
                for (VerifyChain.Trust.Allowed one : new VerifyChain.Trust(file.toString(), null).allowed) {
                    equal("number of line", 2, one.line());
                    if (one.accepts(blob, "git", 1_000_000_000)) found = "git";
                }
            } catch (VerifyChain.Exit exit) {
                found = String.valueOf(exit.status);
            }
            equal(line[1], line[0], found);
        }
        Files.delete(file);
    }

    // ---------------------------------------------------------------------------------------- exports and repositories

    private static final Pattern FINDING = Pattern.compile("\"code\":\"([a-z-]+)\",\"id\":\"\\w*\",\"seq\":(\\w+)");

    /** The exit status, then all findings as code@seq. */
    private static String run(Object... args) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try {
            StringBuilder found = new StringBuilder();
            found.append(VerifyChain.run(out, Arrays.stream(args).map(String::valueOf).toArray(String[]::new)));
            String text = out.toString(StandardCharsets.UTF_8);
            Matcher one = FINDING.matcher(text);
            while (one.find()) found.append(" ").append(one.group(1)).append("@").append(one.group(2));
            return found.toString();
        } catch (VerifyChain.Exit exit) {
            return String.valueOf(exit.status);
        }
    }

    private static void exports(Path folder) throws IOException {
        Path file = folder.resolve("x.jsonl");
        Path side = Files.createDirectories(folder.resolve("x.jsonl.files")).resolve("3.1");
        Files.writeString(side, SIDE_FILE);
        Files.writeString(file, String.join("\n", EVENTS) + "\n");
        equal("export", "0", run(file));
        equal("head", "0", run("--expect-seq", 3, "--expect-head", HASHES[2], file));
        equal("another head", "1 rollback@2", run("--expect-seq", 2, "--expect-head", HASHES[2], file));
        equal("newer head", "1 truncated@3", run("--expect-seq", 4, "--expect-head", HASHES[2], file));
        equal("unsigned", "1 bad-signature@null", run("--require-signed", file));
        Files.writeString(side, SIDE_FILE + "x");
        equal("size of side file", "1 bad-file@3", run(file));
        Files.writeString(side, SIDE_FILE.replace('o', 'p'));
        equal("side file", "1 bad-file@3", run(file));
        Files.delete(side);
        equal("no side file", "1 missing-object@3", run(file));
        Files.writeString(side, SIDE_FILE);
        Files.writeString(file, String.join("\n", EVENTS));
        equal("no newline", "1 truncated@3", run(file));
        Files.writeString(file, String.join("\n", EVENTS[0], withheld(), EVENTS[2]) + "\n");
        equal("withheld", "0", run(file));
        Files.writeString(file, String.join("\n", EVENTS[0], EVENTS[2]) + "\n");
        Files.move(side, side.resolveSibling("2.1"));
        equal("dropped", "1 bad-seq@2 broken-link@2", run(file));
        Files.writeString(file, String.join("\n", EVENTS[0], " ", EVENTS[2].replace("\"demo\"", "\"d\"")) + "\n");
        Files.move(side.resolveSibling("2.1"), side);
        equal("lost and of another session", "1 bad-json@2 bad-session@3", run(file));
        Files.writeString(file, "\n".repeat(5000));
        equal("many findings", 1001, run(file).split(" ").length);
        Files.writeString(file, "");
        equal("empty", "4", run(file));
    }

    private static Path object(Path repository, String id) {
        return repository.resolve("objects").resolve(id.substring(0, 2)).resolve(id.substring(2));
    }

    /** Writes a loose object, below another id and with another size if these are given. */
    private static void put(Path repository, String type, byte[] content, String id, int size) throws IOException {
        byte[] whole = new VerifyChain.Bytes().add(type + " " + size + "\0").add(content).copy();
        String right = VerifyChain.HEX.formatHex(VerifyChain.digest("SHA-1").digest(whole));
        Path file = object(repository, id == null ? right : id);
        Files.createDirectories(file.getParent());
        try (OutputStream out = new DeflaterOutputStream(Files.newOutputStream(file))) {
            out.write(whole);
        }
    }

    private static void put(Path repository, String type, byte[] content, String id) throws IOException {
        put(repository, type, content, id, content.length);
    }

    /** The demo session in git, its objects written one by one; ids by "commit 3" and the like. */
    private static SortedMap<String, String> build(Path repository) throws IOException {
        delete(repository);
        SortedMap<String, String> ids = new TreeMap<>();
        VerifyChain.Deriver deriver = new VerifyChain.Deriver();
        VerifyChain.Event event = new VerifyChain.Event();
        byte[] side = VerifyChain.utf8(SIDE_FILE);
        for (int seq = 1; seq <= 3; seq++) {
            byte[] text = VerifyChain.utf8(EVENTS[seq - 1]);
            read(event, EVENTS[seq - 1]);
            SortedMap<String, byte[]> files = new TreeMap<>();
            if (seq == 3) files.put("1", VerifyChain.Kind.FILE.id(side, side.length));
            byte[] blob = VerifyChain.Kind.EVENT.id(text, text.length);
            deriver.push(event, blob, files, deriver.commitId);
            equal("commit", COMMITS[seq - 1], VerifyChain.HEX.formatHex(deriver.commitId));
            put(repository, "blob", text, null);
            put(repository, "commit", deriver.commit.copy(), null);
            byte[] leaf = deriver.leaf.copy();
            byte[] middle = folder("00", deriver.leafId);
            put(repository, "tree", leaf, null);
            put(repository, "tree", middle, null);
            put(repository, "tree", folder("0000", deriver.middleId), null);
            ids.put("blob " + seq, VerifyChain.HEX.formatHex(blob));
            ids.put("leaf " + seq, VerifyChain.HEX.formatHex(deriver.leafId));
            ids.put("middle " + seq, VerifyChain.HEX.formatHex(deriver.middleId));
            ids.put("root " + seq, VerifyChain.HEX.formatHex(deriver.rootId));
            ids.put("commit " + seq, COMMITS[seq - 1]);
        }
        put(repository, "blob", side, null);
        ids.put("side 3", VerifyChain.HEX.formatHex(VerifyChain.Kind.FILE.id(side, side.length)));
        Files.writeString(repository.resolve("HEAD"), "ref: refs/heads/demo/main\n");
        ref(repository, "heads/demo/main", COMMITS[2] + "\n");
        return ids;
    }

    private static byte[] folder(String name, byte[] id) {
        return new VerifyChain.Bytes().add("40000 " + name + "\0").add(id).copy();
    }

    private static void ref(Path repository, String name, String text) throws IOException {
        Path file = repository.resolve("refs").resolve(name);
        Files.createDirectories(file.getParent());
        Files.writeString(file, text);
    }

    private static void repositories(Path folder) throws IOException {
        Path repository = folder.resolve("r.git");
        SortedMap<String, String> ids = build(repository);
        equal("repository", "0", run(repository));
        equal("by name", "0", run("--expect-seq", 3, "--expect-head", HASHES[2], repository, "demo"));
        equal("no such name", "4", run(repository, "demo/other"));
        // Without an object: what is found, and where.
        String[][] missing = {{"blob 2", "blob", "missing-object@2"}, {"commit 1", "commit", "missing-object@1"},
            {"leaf 3", "tree", "missing-object@1"}, {"leaf 2", "tree", "missing-object@2"},
            {"middle 3", "tree", "missing-object@1"}, {"root 1", "tree", "missing-object@1"},
            {"side 3", "blob", "missing-object@3"}, {"commit 3", "commit", "missing-object@null"}};
        for (String[] one : missing) {
            String id = ids.get(one[0]);
            Files.delete(object(repository, id));
            equal("without " + one[0], "1 " + one[2], run(repository));
            put(repository, one[1], VerifyChain.utf8("x"), id);
            equal("forged " + one[0], "1 " + one[2].replace("missing", "bad"), run(repository));
            put(repository, "tag", VerifyChain.utf8("x"), id);
            equal("another type of " + one[0], "1 " + one[2].replace("missing", "bad"), run(repository));
            build(repository);
        }
        // Blobs that lie about their size: git prints them as they lie there.
        for (int size : new int[] {0, 5, 100_000, 20_000_000}) {
            for (String blob : new String[] {"blob 1", "blob 2", "blob 3", "side 3"}) {
                build(repository);
                byte[] text = VerifyChain.utf8(blob.startsWith("side") ? SIDE_FILE : EVENTS[blob.charAt(5) - '1']);
                put(repository, "blob", text, ids.get(blob), size);
                boolean large = size == 20_000_000 && blob.startsWith("blob");
                String code = large ? "bad-member@" : "bad-object@";
                equal("lying " + blob + " " + size, "1 " + code + blob.charAt(5), run(repository));
            }
        }
        build(repository);
        Files.delete(object(repository, ids.get("commit 1")));
        Files.writeString(repository.resolve("shallow"), COMMITS[1] + "\n");
        equal("shallow", "3", run(repository));
        build(repository);
        put(repository, "commit", new byte[70_000], ids.get("commit 3"));
        equal("large commit", "1 bad-commit@null", run(repository));
        build(repository);
        ref(repository, "heads/demo/other", COMMITS[1] + "\n");
        equal("another name", "1 wrong-ref@null", run(repository, "demo/other"));
        ref(repository, "heads/demo/other", COMMITS[1]);
        equal("no newline", "1 wrong-ref@null", run(repository));
        ref(repository, "remotes/o/demo/main", COMMITS[1] + "\n");
        ref(repository, "remotes/o/HEAD", "ref: refs/remotes/o/demo/main\n");
        equal("two of a name", "2", run("--expect-seq", 3, "--expect-head", HASHES[2], repository, "demo"));
        ref(repository, "heads/demo/other.lock", "");
        ref(repository, "heads/demo/other", "ref: refs/heads/demo/main\n");
        String packed = "# x\n" + COMMITS[2] + " refs/heads/demo/other\nx refs/heads/demo/y\n";
        Files.writeString(repository.resolve("packed-refs"), packed);
        equal("packed and loose", "1 wrong-ref@null", run(repository));
        Files.createDirectories(repository.resolve("reftable"));
        equal("reftable", "4", run(repository));
    }

    private static void usage(Path folder) throws IOException {
        equal("no path", "2", run());
        equal("unknown option", "2", run("--x", folder));
        equal("no value", "2", run(folder, "--expect-seq"));
        equal("half of a head", "2", run(folder, "--expect-seq", 3));
        equal("three names", "2", run(folder, "a", "b"));
        equal("no repository", "4", run(folder));
        equal("no file", "4", run(folder.resolve("none.json")));
        equal("no signers", "2", run("--allowed-signers", folder.resolve("none"), folder));
        Path proof = folder.resolve("p.json");
        String[][] proofs = {{"", "bad-json"}, {"{}", "not-canonical"}, {"[]\n", "bad-json"}, {"{}\n", "bad-version"},
            {"{\"format\":\"gitjournal-proof\",\"version\":1}\n", "bad-member"}};
        for (String[] one : proofs) {
            Files.writeString(proof, one[0]);
            equal("proof " + one[0], "1 " + one[1] + "@null", run(proof));
        }
        equal("a name for a file", "2", run(proof, "s"));
    }

    private static void delete(Path folder) throws IOException {
        if (!Files.exists(folder)) return;
        List<Path> all;
        try (Stream<Path> walk = Files.walk(folder)) {
            all = new ArrayList<>(walk.sorted(Comparator.comparing(Path::getNameCount)).toList());
        }
        Collections.reverse(all);
        for (Path one : all) Files.delete(one);
    }
}
