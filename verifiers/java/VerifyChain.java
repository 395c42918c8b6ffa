// Verifies a gitjournal: a git repository, a JSONL export or a proof. Needs JDK 17 and git 2.36 or newer, nothing else.
//
//     java VerifyChain.java [--allowed-signers FILE] [--revoked-keys FILE] [--require-signed]
//                           [--expect-seq N --expect-head HASH] PATH [NAME]
//
// It follows docs/verification.md: "section 7" here is one of that page, "format 6" a section of docs/format.md.
// Whatever is read may come from an attacker. In the order of this file: JSON, one event, a line of events, seals,
// signatures; then the three inputs (git, export, proof); then the verdict and the run.
//
// If PATH is not ASCII, Java must run in a UTF-8 locale (LC_ALL=C.UTF-8) to find it.

import java.io.*;
import java.math.*;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.*;
import java.security.spec.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import java.util.stream.*;

public final class VerifyChain {
    static final int MAX_DEPTH = 64;
    static final int MAX_SEQ = 99_999_999;
    static final int MAX_EVENT = 16 << 20;
    static final int MAX_PROOF = 64 << 20;
    static final int MAX_FINDINGS = 1000;
    static final HexFormat HEX = HexFormat.of();
    static final MessageDigest SHA1 = digest("SHA-1");
    static final MessageDigest SHA256 = digest("SHA-256");

    /** Ends the work on an event, a line or a proof. It is no error of the program and carries no stack trace. */
    @SuppressWarnings("serial")
    static final class Stop extends Exception {
        final String code;

        Stop(String code) {
            super(code, null, false, false);
            this.code = code;
        }
    }

    static final Stop BAD_JSON = new Stop("bad-json");
    static final Stop NOT_CANONICAL = new Stop("not-canonical");
    static final Stop BAD_VERSION = new Stop("bad-version");
    static final Stop BAD_MEMBER = new Stop("bad-member");
    static final Stop BAD_FORK = new Stop("bad-fork");
    static final Stop BAD_SEAL = new Stop("bad-seal");
    static final Stop BAD_SIGNATURE = new Stop("bad-signature");
    static final Stop BAD_TREE = new Stop("bad-tree");
    static final Stop ENOUGH = new Stop("1000 findings");
    static final Stop WALK = new Stop("the commits must be walked");

    /** Ends the run without a verdict: status 2 (wrong usage) or 4 (nothing that can be read). */
    @SuppressWarnings("serial")
    static final class Exit extends Exception {
        final int status;

        Exit(int status, String message) {
            super(message);
            this.status = status;
        }
    }

    // ------------------------------------------------------------------------------------------------ bytes and hashes

    static MessageDigest digest(String name) {
        try {
            return MessageDigest.getInstance(name);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every JDK has the ones that are asked for here
        }
    }

    static byte[] sha256(byte[]... parts) {
        for (byte[] part : parts) SHA256.update(part);
        return SHA256.digest();
    }

    /** One byte for each char; used for what is ASCII, or only compared. */
    static byte[] latin(String text) { return text.getBytes(StandardCharsets.ISO_8859_1); }

    static String latin(byte[] b, int from, int to) {
        return new String(b, from, to - from, StandardCharsets.ISO_8859_1);
    }

    static byte[] utf8(String text) { return text.getBytes(StandardCharsets.UTF_8); }

    /** Null if the bytes are not UTF-8. */
    static String utf8(byte[] b) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(b)).toString();
        } catch (CharacterCodingException e) {
            return null;
        }
    }

    /** Standard base64 with padding, in its one spelling; else null. */
    static byte[] base64(String text) {
        try {
            byte[] bytes = Base64.getDecoder().decode(text);
            return base64(bytes).equals(text) ? bytes : null;
        } catch (IllegalArgumentException e) {
            return null;
        }
    }

    static String base64(byte[] bytes) { return Base64.getEncoder().encodeToString(bytes); }

    static boolean startsWith(byte[] b, byte[] head) {
        return b.length >= head.length && Arrays.equals(b, 0, head.length, head, 0, head.length);
    }

    /** Bytes that grow. */
    static final class Bytes {
        private static final byte[] DIGITS = latin("0123456789abcdef");
        byte[] b = new byte[256];
        int n;

        /** The bytes, with room for some more. */
        byte[] room(int more) {
            if (b.length - n < more) b = Arrays.copyOf(b, Math.max(2 * b.length, n + more));
            return b;
        }

        Bytes add(byte[] from, int start, int end) {
            System.arraycopy(from, start, room(end - start), n, end - start);
            n += end - start;
            return this;
        }

        Bytes add(byte[] from) { return add(from, 0, from.length); }

        Bytes add(String text) { return add(utf8(text)); }

        Bytes hex(byte[] id) {
            room(2 * id.length);
            for (byte x : id) {
                b[n++] = DIGITS[x >> 4 & 15];
                b[n++] = DIGITS[x & 15];
            }
            return this;
        }

        /** A number with zeros in front. */
        Bytes number(int value, int digits) {
            room(digits);
            n += digits;
            for (int i = 1; i <= digits; i++, value /= 10) b[n - i] = DIGITS[value % 10];
            return this;
        }

        byte[] copy() { return Arrays.copyOf(b, n); }
    }

    /** Hashes or ids of one width, numbered from 1. They stand 100 to a piece, so that a short line costs little. */
    static final class Rows {
        private final int width;
        private final List<byte[]> pieces = new ArrayList<>();
        int count;

        Rows(int width) { this.width = width; }

        void add(byte[] row) {
            if (count % 100 == 0) pieces.add(new byte[100 * width]);
            System.arraycopy(row, 0, pieces.get(count / 100), count % 100 * width, width);
            count++;
        }

        byte[] get(int number) {
            int at = (number - 1) % 100 * width;
            return Arrays.copyOfRange(pieces.get((number - 1) / 100), at, at + width);
        }

        /** How many first rows are equal here and there, counted up to {@code limit}. */
        int common(Rows other, int limit) {
            for (int done = 0; done < limit; done += 100) {
                int at = Arrays.mismatch(pieces.get(done / 100), other.pieces.get(done / 100));
                if (at >= 0) return Math.min(limit, done + at / width);
            }
            return limit;
        }
    }

    // ------------------------------------------------------------------------------------------ names (format 2 and 7)

    static boolean isName(String text, int max) {
        int size = text == null ? 0 : utf8(text).length;
        return 1 <= size && size <= max && text.chars().noneMatch(c -> c < 0x20 || 0x7f <= c && c <= 0x9f);
    }

    static String encode(String name) {
        byte[] b = utf8(name);
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < b.length; i++) {
            boolean dot = b[i] == '.';
            boolean stumble = i == 0 && (dot || b[i] == '-') || dot && i == b.length - 1
                || dot && b[i + 1] == '.' || dot && latin(b, i, b.length).equals(".lock");
            boolean plain = b[i] > 0 && (Character.isLetterOrDigit(b[i]) || "._-".indexOf(b[i]) >= 0);
            out.append(plain && !stumble ? String.valueOf((char) b[i]) : String.format("%%%02X", b[i]));
        }
        return out.toString();
    }

    /** The bytes behind %XX; another % stands for itself. */
    static byte[] unpercent(String text) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (int i = 0; i < text.length(); i++) {
            boolean coded = text.charAt(i) == '%' && i + 2 < text.length()
                && HexFormat.isHexDigit(text.charAt(i + 1)) && HexFormat.isHexDigit(text.charAt(i + 2));
            out.write(coded ? HexFormat.fromHexDigits(text, i + 1, i + 3) : text.charAt(i));
            if (coded) i += 2;
        }
        return out.toByteArray();
    }

    /** The name that a part of a ref stands for; null if it is none, or not in the one spelling. */
    static String decode(String part) {
        String name = utf8(unpercent(part));
        return part.length() <= 240 && isName(name, 200) && encode(name).equals(part) ? name : null;
    }

    // ------------------------------------------------------------------------------------------------ JSON (section 6)

    /**
     * Checks a JSON text in one pass: the rules of I-JSON, and whether it is canonical. A zero byte after the text
     * ends every loop, as it is allowed nowhere; so places need not be compared with the end.
     */
    static final class Json {
        private final byte[][] known;
        /** Where the values of the known members of the outermost object begin and end; begin 0: it is not there. */
        final int[] from;
        final int[] to;
        boolean unknownMember;
        /** Whether a name in $gj: is no tag; the highest number of a side file in a tag. */
        boolean badTag;
        long maxFile;
        private byte[] t;
        private int at;
        private boolean canonical;
        private boolean ordered;
        private boolean collect;

        Json(String... known) {
            this.known = Arrays.stream(known).map(VerifyChain::latin).toArray(byte[][]::new);
            from = new int[known.length];
            to = new int[known.length];
        }

        /** Throws bad-json or not-canonical. {@code text[size]} must exist; it is overwritten. */
        void scan(byte[] text, int size) throws Stop {
            t = text;
            t[size] = 0;
            canonical = ordered = true;
            pass(size, false);
            // Names in order differ, as each is greater than the one before it. Others are sorted in a second pass.
            if (!ordered) pass(size, true);
            if (!canonical) throw NOT_CANONICAL;
        }

        private void pass(int size, boolean collecting) throws Stop {
            at = 0;
            collect = collecting;
            unknownMember = badTag = false;
            maxFile = 0;
            Arrays.fill(from, 0);
            space();
            value(0);
            space();
            if (at != size) throw BAD_JSON;
        }

        private void space() {
            for (; t[at] == ' ' || t[at] == '\n' || t[at] == '\r' || t[at] == '\t'; at++) canonical = false;
        }

        private void expect(char c) throws Stop { if (t[at++] != c) throw BAD_JSON; }

        /** Whether another item or member follows. */
        private boolean comma() {
            space();
            if (t[at] != ',') return false;
            at++;
            space();
            return true;
        }

        private void value(int depth) throws Stop {
            switch (t[at]) {
                case '{' -> object(depth + 1);
                case '[' -> array(depth + 1);
                case '"' -> string();
                case 't' -> word("true");
                case 'f' -> word("false");
                case 'n' -> word("null");
                default -> number();
            }
        }

        private void word(String word) throws Stop { for (int i = 0; i < word.length(); i++) expect(word.charAt(i)); }

        private void array(int depth) throws Stop {
            if (depth > MAX_DEPTH) throw BAD_JSON;
            at++;
            space();
            if (t[at] != ']') {
                do value(depth); while (comma());
            }
            expect(']');
        }

        private void object(int depth) throws Stop {
            if (depth > MAX_DEPTH) throw BAD_JSON;
            List<Integer> names = collect ? new ArrayList<>() : List.of();
            int members = 0;
            int before = 0;
            boolean tags = false;
            at++;
            space();
            if (t[at] != '}') {
                do {
                    if (t[at] != '"') throw BAD_JSON;
                    int name = at;
                    string();
                    int nameEnd = at;
                    int order = members++ == 0 ? -1 : compareNames(before, name);
                    if (order == 0) throw BAD_JSON;
                    if (order > 0) canonical = ordered = false;
                    if (collect) names.add(name);
                    before = name;
                    space();
                    expect(':');
                    space();
                    int begin = at;
                    value(depth);
                    if (depth == 1) remember(name + 1, nameEnd - 1, begin);
                    if (t[name + 1] == '$' && latin(t, name + 1, nameEnd).startsWith("$gj:")) {
                        tags = true;
                        tag(latin(t, name + 1, nameEnd - 1), begin);
                    }
                } while (comma());
            }
            expect('}');
            if (tags && members != 1) badTag = true;
            if (!collect) return;
            names.sort(this::compareNames);
            for (int i = 1; i < names.size(); i++) {
                if (compareNames(names.get(i - 1), names.get(i)) == 0) throw BAD_JSON;
            }
        }

        private void remember(int name, int nameEnd, int begin) {
            for (int i = 0; i < known.length; i++) {
                if (!Arrays.equals(t, name, nameEnd, known[i], 0, known[i].length)) continue;
                from[i] = begin;
                to[i] = at;
                return;
            }
            unknownMember = true;
        }

        /** Looks at a tag whose value has just been read. What it says counts only if the text is canonical. */
        private void tag(String name, int begin) {
            long file = 0;
            if (name.equals("$gj:json") || name.equals("$gj:b64")) {
                if (t[begin] == '"') return;
            } else if (name.equals("$gj:file")) {
                file = whole(t, begin, at);
            } else if (name.equals("$gj:ref") && t[begin] == '[') {
                int comma = begin + 1;
                while ('0' <= t[comma] && t[comma] <= '9') comma++;
                boolean pointer = t[comma] == ',' && t[comma + 1] == '"' && (t[comma + 2] == '"' || t[comma + 2] == '/')
                    && Value.after(t, comma + 1) == at - 1;
                if (pointer) file = whole(t, begin + 1, comma);
            }
            if (file < 1) badTag = true;
            maxFile = Math.max(maxFile, file);
        }

        private void string() throws Stop {
            byte[] b = t;
            int i = at + 1;
            for (;;) {
                int c = b[i];
                if (c == '"') break;
                if (c == '\\') i = escape(i);
                else if (c >= 0x20) i++;
                else if (c < 0) i = character(i); // a byte from 0x80 on
                else throw BAD_JSON;
            }
            at = i + 1;
        }

        /** The place after the UTF-8 character of two to four bytes at i. */
        private int character(int i) throws Stop {
            int lead = t[i] & 0xff;
            int second = t[i + 1] & 0xff;
            int more = lead < 0xc2 || lead > 0xf4 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
            boolean overlong = lead == 0xe0 && second < 0xa0 || lead == 0xf0 && second < 0x90;
            boolean outside = lead == 0xed && second > 0x9f || lead == 0xf4 && second > 0x8f; // surrogate, > U+10FFFF
            if (more == 0 || overlong || outside) throw BAD_JSON;
            for (int k = 1; k <= more; k++) if ((t[i + k] & 0xc0) != 0x80) throw BAD_JSON;
            return i + more + 1;
        }

        /** The place after the escape at i, or after the two of a surrogate pair. */
        private int escape(int i) throws Stop {
            int c = t[i + 1];
            if (c == 'u') {
                int unit = unit(i + 2);
                // RFC 8785 has \ u only for control characters without a short form, in lower case.
                boolean isShort = unit >= 8 && unit <= 13 && unit != 11;
                if (unit >= 0x20 || isShort || 'A' <= t[i + 5] && t[i + 5] <= 'F') canonical = false;
                if (unit < 0xd800 || unit > 0xdfff) return i + 6;
                boolean first = unit < 0xdc00 && t[i + 6] == '\\' && t[i + 7] == 'u';
                if (!first || unit(i + 8) >> 10 != 0xdc00 >> 10) throw BAD_JSON;
                return i + 12;
            }
            if (c == '/') canonical = false;
            else if ("\"\\bfnrt".indexOf(c) < 0) throw BAD_JSON;
            return i + 2;
        }

        private int unit(int i) throws Stop {
            int unit = 0;
            for (int k = i; k < i + 4; k++) {
                if (!HexFormat.isHexDigit(t[k])) throw BAD_JSON;
                unit = unit << 4 | HexFormat.fromHexDigit(t[k]);
            }
            return unit;
        }

        private void digits() throws Stop {
            if (t[at] < '0' || t[at] > '9') throw BAD_JSON;
            while ('0' <= t[at] && t[at] <= '9') at++;
        }

        private void number() throws Stop {
            int begin = at;
            boolean minus = t[at] == '-';
            if (minus) at++;
            if (t[at] == '0') at++;
            else digits();
            int wholeEnd = at;
            if (t[at] == '.') {
                at++;
                digits();
            }
            if (t[at] == 'e' || t[at] == 'E') {
                at++;
                if (t[at] == '+' || t[at] == '-') at++;
                digits();
            }
            if (at == wholeEnd) {
                // 2^53 has 16 digits, so what is longer than 17 characters is too big.
                long value = at - begin > 17 ? Long.MAX_VALUE : Math.abs(whole(t, begin, at));
                if (value >= 1L << 53 || value == 0 && minus) throw BAD_JSON;
                return;
            }
            String text = latin(t, begin, at);
            double value = Double.parseDouble(text);
            if (!(Math.abs(value) < 0x1p53) || value == 0 && minus) throw BAD_JSON;
            // Trying begins with one digit less than the text has: if that is enough, the text is too long.
            int digits = text.replaceFirst("[eE].*", "").replaceFirst("^[-0.]+", "").replace(".", "").length();
            if (canonical && !text.equals(print(value, digits - 1))) canonical = false;
        }

        /** Orders two names, given by the places of their opening quotes, by UTF-16 units. */
        private int compareNames(int a, int b) {
            int i = a + 1;
            int j = b + 1;
            for (; t[i] == t[j] && t[i] != '"' && t[i] != '\\'; i++) j++;
            if (t[i] < 0 || t[j] < 0 || t[i] == '\\' || t[j] == '\\') {
                return Value.at(t, a).string().compareTo(Value.at(t, b).string()); // Java's order is by UTF-16 units
            }
            return (t[i] == '"' ? -1 : t[i]) - (t[j] == '"' ? -1 : t[j]);
        }

        /** A number as ECMAScript prints it, if that takes at least so many digits. */
        static String print(double v, int fewest) {
            if (v == 0) return "0";
            if (v < 0) return "-" + print(-v, fewest);
            BigDecimal shortest = shortest(v, fewest);
            String digits = shortest.unscaledValue().toString();
            int k = digits.length();
            int n = k - shortest.scale();
            if (k <= n && n <= 21) return digits + "0".repeat(n - k);
            if (0 < n && n <= 21) return digits.substring(0, n) + "." + digits.substring(n);
            if (-6 < n && n <= 0) return "0." + "0".repeat(-n) + digits;
            String exponent = (n > 0 ? "e+" : "e-") + Math.abs(n - 1);
            return digits.charAt(0) + (k > 1 ? "." + digits.substring(1) : "") + exponent;
        }

        /**
         * The fewest digits that read back as v, and of these the nearest. (Double.toString of JDK 17 does not always
         * give them.) If 15 digits or less read back, rounding to 15 gives them too. The neighbours of the nearest are
         * tried because below a power of two the numbers stand closer than above it: 2^-44 is 5.684341886080802e-14.
         */
        private static BigDecimal shortest(double v, int fewest) {
            BigDecimal exact = new BigDecimal(v);
            for (int digits = Math.max(fewest, v < Double.MIN_NORMAL ? 1 : 15); ; digits++) {
                for (RoundingMode mode : List.of(RoundingMode.HALF_EVEN, RoundingMode.UP, RoundingMode.DOWN)) {
                    BigDecimal rounded = exact.round(new MathContext(digits, mode));
                    if (rounded.doubleValue() == v) return rounded.stripTrailingZeros();
                }
            }
        }
    }

    /** The integer that canonical text is; Long.MIN_VALUE if it is none (none that is allowed has 18 characters). */
    static long whole(byte[] t, int from, int to) {
        int first = t[from] == '-' ? from + 1 : from;
        long value = 0;
        if (first >= to || to - from > 17) return Long.MIN_VALUE;
        for (int i = first; i < to; i++) {
            if (t[i] < '0' || t[i] > '9') return Long.MIN_VALUE;
            value = 10 * value + t[i] - '0';
        }
        return first > from ? -value : value;
    }

    /** A value within a text that was scanned: two places, so that nothing is copied before it is asked for. */
    record Value(byte[] t, int from, int to) {
        static Value at(byte[] t, int from) { return new Value(t, from, after(t, from)); }

        /** The place after the value that begins at this place. */
        static int after(byte[] t, int at) {
            int depth = 0;
            do {
                byte c = t[at++];
                if (c == '{' || c == '[') depth++;
                else if (c == '}' || c == ']') depth--;
                else if (c == '"') {
                    for (; t[at] != '"'; at++) if (t[at] == '\\') at++;
                    at++;
                } else {
                    while (depth == 0 && ",:]} \n\r\t\0".indexOf(t[at]) < 0) at++;
                }
            } while (depth > 0);
            return at;
        }

        boolean isObject() { return t[from] == '{'; }

        boolean isArray() { return t[from] == '['; }

        /** The member of a canonical object; null if it is not there. */
        Value get(String name) {
            byte[] wanted = latin('"' + name + '"');
            for (int at = from + 1; isObject() && t[at] == '"'; ) {
                int colon = after(t, at);
                int end = after(t, colon + 1);
                if (Arrays.equals(t, at, colon, wanted, 0, wanted.length)) return new Value(t, colon + 1, end);
                at = end + 1;
            }
            return null;
        }

        /** What the member of that name says if it is a string; else null. */
        String string(String name) {
            Value member = get(name);
            return member == null ? null : member.string();
        }

        boolean hasExactly(String... names) {
            int members = 0;
            for (int at = from + 1; isObject() && t[at] == '"'; at = after(t, after(t, at) + 1) + 1) members++;
            return isObject() && members == names.length && Arrays.stream(names).allMatch(name -> get(name) != null);
        }

        /** The items of a canonical array, but no more than {@code max}. */
        List<Value> items(int max) {
            List<Value> items = new ArrayList<>();
            for (int at = from + 1; at < to - 1 && items.size() < max; at = after(t, at) + 1) items.add(at(t, at));
            return items;
        }

        /** Long.MIN_VALUE if it is no integer. */
        long whole() { return VerifyChain.whole(t, from, to); }

        /** What a string says; null if it is none. */
        String string() {
            if (t[from] != '"') return null;
            String raw = new String(t, from + 1, to - from - 2, StandardCharsets.UTF_8);
            if (raw.indexOf('\\') < 0) return raw;
            StringBuilder out = new StringBuilder();
            for (int i = 0; i < raw.length(); i++) {
                char c = raw.charAt(i);
                if (c == '\\') {
                    c = raw.charAt(++i);
                    int control = "bfnrt".indexOf(c);
                    if (control >= 0) c = "\b\f\n\r\t".charAt(control);
                    if (c == 'u') {
                        c = (char) HexFormat.fromHexDigits(raw, i + 1, i + 5);
                        i += 4;
                    }
                }
                out.append(c);
            }
            return out.toString();
        }
    }

    // --------------------------------------------------------------------------- one event (section 6, format 2 and 3)

    /** Size and SHA-256 of a side file, as the event says. */
    record Side(long size, byte[] sha256) {}

    /** One event. The same object reads one text after the other. */
    static final class Event {
        static final String[] NAMES = {"actor", "data", "data_sha256", "epoch", "files", "prev", "salt", "seq",
            "session", "ts", "turn", "type", "v"};
        static final int ACTOR = 0, DATA = 1, DATA_SHA256 = 2, EPOCH = 3, FILES = 4, PREV = 5, SALT = 6, SEQ = 7,
            SESSION = 8, TS = 9, TURN = 10, TYPE = 11, V = 12;
        static final int[] REQUIRED = {V, SESSION, SEQ, PREV, EPOCH, TS, TYPE, ACTOR};
        static final Pattern HASH = Pattern.compile("[0-9a-f]{64}");
        static final Pattern WORDS = Pattern.compile("[a-z][a-z0-9_]*(?:\\.[a-z][a-z0-9_]*)*");
        static final Pattern WHO = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}");
        static final Pattern EXECUTION = Pattern.compile("[A-Za-z0-9_-]{1,64}");
        static final Pattern RANDOM = Pattern.compile("[A-Za-z0-9_-]{21}[AQgw]");
        static final Pattern MEDIA_TYPE = Pattern.compile("[ -~]{1,127}");
        static final Pattern MOMENT = Pattern.compile(
            "([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})\\.[0-9]{3}Z");
        private static final byte[] BODY = latin("{\"data\":");
        private static final byte[] DIGEST = latin("\"data_sha256\":\"");

        private final Json json = new Json(NAMES);
        private byte[] t;
        private int size;
        private byte[] sessionText = {};
        int seq;
        long epoch;
        long seconds;
        /** Null at seq 1. */
        byte[] prev;
        String session;
        String type;
        String actor;
        boolean withheld;
        Value data;
        List<Side> files;
        byte[] hash;

        /** Null if the text is an event, else the code of the first rule that it breaks. text[size] must exist. */
        String read(byte[] text, int length) {
            t = text;
            size = length;
            try {
                check();
                return null;
            } catch (Stop stop) {
                return stop.code;
            }
        }

        private void check() throws Stop {
            if (size > MAX_EVENT) throw BAD_MEMBER;
            json.scan(t, size);
            if (t[0] != '{') throw BAD_JSON;
            if (!there(V) || whole(V) != 1) throw BAD_VERSION;
            for (int member : REQUIRED) if (!there(member)) throw BAD_MEMBER;
            if (json.unknownMember) throw BAD_MEMBER;
            if (whole(SEQ) < 1 || whole(SEQ) > MAX_SEQ) throw new Stop("bad-seq");
            seq = (int) whole(SEQ);
            epoch = whole(EPOCH);
            if (epoch < 1) throw new Stop("bad-epoch");
            checkHeader();
            checkPayload();
            if ((seq == 1) != (prev == null)) throw new Stop("broken-link");
            if (withheld && (type.equals("session.branch") || type.equals("session.fork"))) throw BAD_FORK;
            if (withheld && type.equals("session.seal")) throw BAD_SEAL;
            if ((seq == 1) != type.equals("session.start")) throw BAD_FORK;
            hash = computeHash();
        }

        private void checkHeader() throws Stop {
            boolean none = t[json.from[PREV]] == 'n'; // null
            prev = none ? null : HEX.parseHex(text(PREV, HASH, 64).group());
            type = text(TYPE, WORDS, 64).group();
            actor = text(ACTOR, WHO, 100).group();
            seconds = seconds(text(TS, MOMENT, 24));
            if (there(TURN)) text(TURN, EXECUTION, 64);
            // The session is mostly that of the event before.
            int from = json.from[SESSION];
            int to = json.to[SESSION];
            if (!Arrays.equals(t, from, to, sessionText, 0, sessionText.length)) {
                String other = new Value(t, from, to).string();
                if (!isName(other, 200)) throw BAD_MEMBER;
                session = other;
                sessionText = Arrays.copyOfRange(t, from, to);
            }
        }

        private void checkPayload() throws Stop {
            withheld = there(DATA_SHA256);
            files = List.of();
            if (withheld == there(DATA)) throw BAD_MEMBER;
            if (withheld) {
                text(DATA_SHA256, HASH, 64);
                if (there(FILES) || there(SALT)) throw BAD_MEMBER;
                return;
            }
            data = new Value(t, json.from[DATA], json.to[DATA]);
            if (!data.isObject()) throw BAD_MEMBER;
            if (there(SALT)) text(SALT, RANDOM, 22);
            if (there(FILES)) files = sides(new Value(t, json.from[FILES], json.to[FILES]));
            if (json.badTag || json.maxFile > files.size()) throw BAD_MEMBER;
        }

        /** Format 4. */
        private static List<Side> sides(Value array) throws Stop {
            List<Value> items = array.isArray() ? array.items(1001) : List.of();
            if (items.isEmpty() || items.size() > 1000) throw BAD_MEMBER;
            List<Side> sides = new ArrayList<>();
            for (Value item : items) {
                boolean named = item.hasExactly("media_type", "name", "sha256", "size");
                if (!named && !item.hasExactly("media_type", "sha256", "size")) throw BAD_MEMBER;
                if (named && !isName(item.string("name"), 255)) throw BAD_MEMBER;
                String media = item.string("media_type");
                String sha256 = item.string("sha256");
                long size = item.get("size").whole();
                if (media == null || !MEDIA_TYPE.matcher(media).matches()) throw BAD_MEMBER;
                if (sha256 == null || !HASH.matcher(sha256).matches() || size < 0) throw BAD_MEMBER;
                sides.add(new Side(size, HEX.parseHex(sha256)));
            }
            return sides;
        }

        /** Seconds since 1970 of a moment that exists. The groups are year, month, day, hour, minute, second. */
        static long seconds(Matcher matched) throws Stop {
            int[] part = new int[6];
            for (int i = 0; i < 6; i++) {
                String digits = matched.group(i + 1);
                part[i] = digits == null ? 0 : Integer.parseInt(digits);
            }
            try {
                LocalDateTime moment = LocalDateTime.of(part[0], part[1], part[2], part[3], part[4], part[5]);
                if (part[0] < 1970) throw BAD_MEMBER;
                return moment.toEpochSecond(ZoneOffset.UTC);
            } catch (DateTimeException e) {
                throw BAD_MEMBER;
            }
        }

        /** Format 3. As names are sorted, header and body are cut out of the stored bytes. */
        private byte[] computeHash() {
            if (withheld) {
                SHA256.update(t, 0, size);
                return SHA256.digest();
            }
            SHA256.update(BODY);
            SHA256.update(t, json.from[DATA], json.to[DATA] - json.from[DATA]);
            if (there(FILES)) SHA256.update(t, comma(FILES), json.to[FILES] - comma(FILES));
            if (there(SALT)) SHA256.update(t, comma(SALT), json.to[SALT] - comma(SALT));
            SHA256.update((byte) '}');
            byte[] body = SHA256.digest();
            SHA256.update(t, 0, comma(DATA) + 1);
            SHA256.update(DIGEST);
            SHA256.update(latin(HEX.formatHex(body) + '"'));
            int from = json.to[DATA];
            for (int member = FILES; member <= SALT; member += SALT - FILES) {
                if (!there(member)) continue;
                SHA256.update(t, from, comma(member) - from);
                from = json.to[member];
            }
            SHA256.update(t, from, size - from);
            return SHA256.digest();
        }

        /** The place of the comma before a member that is there. */
        private int comma(int member) { return json.from[member] - NAMES[member].length() - 4; }

        private boolean there(int member) { return json.from[member] > 0; }

        private long whole(int member) { return VerifyChain.whole(t, json.from[member], json.to[member]); }

        /** A string member that keeps a pattern. No pattern allows what JSON escapes, so the stored bytes do. */
        private Matcher text(int member, Pattern pattern, int max) throws Stop {
            int from = json.from[member];
            int to = json.to[member];
            if (t[from] != '"' || to - from - 2 > max) throw BAD_MEMBER;
            Matcher matcher = pattern.matcher(latin(t, from + 1, to - 1));
            if (!matcher.matches()) throw BAD_MEMBER;
            return matcher;
        }
    }

    // ------------------------------------------------------------------------------ what is said of a line (section 3)

    /** Seq 0 stands for null: of no single event. */
    record Finding(int seq, String code, String id) implements Comparable<Finding> {
        private static final Comparator<Finding> ORDER =
            Comparator.comparingInt(Finding::seq).thenComparing(Finding::code).thenComparing(Finding::id);

        @Override
        public int compareTo(Finding other) { return ORDER.compare(this, other); }
    }

    /** A key whose signatures were right; {@code line} is the first of the allowed signers that accepted one. */
    static final class Signer {
        int signatures;
        int line = Integer.MAX_VALUE;
        String principals;
    }

    /** One line of the verdict, and what it adds to the notes of section 10. */
    static final class Line {
        final String name;
        String commit;
        int headSeq;
        byte[] headHash;
        int seals;
        int sideFiles;
        int signatures;
        int signedTo;
        final SortedMap<String, Signer> signers = new TreeMap<>();
        final BitSet withheld = new BitSet();
        final SortedSet<Finding> findings = new TreeSet<>();
        int uncheckedKinds;
        int leftOut;
        boolean signerEnds;
        /** Null for a proof, and for a ref that holds no id. */
        Chain chain;

        Line(String name) { this.name = name; }

        void find(String code, int seq, byte[] id) throws Stop {
            if (!isFull()) findings.add(new Finding(seq, code, id == null ? "" : HEX.formatHex(id)));
            if (isFull()) throw ENOUGH;
        }

        boolean isFull() { return findings.size() >= MAX_FINDINGS; }

        /** Section 7, expected head. */
        void expect(int seq, byte[] hash) throws Stop {
            if (headSeq < seq) find("truncated", headSeq, hash);
            else if (!Arrays.equals(chain.hash(seq), hash)) find("rollback", seq, hash);
        }
    }

    // ---------------------------------------------------------------------------------- one line of events (section 7)

    static final class Chain {
        private final Line line;
        private final Trust trust;
        final Rows hashes = new Rows(32);
        private final BitSet lost = new BitSet();
        final BitSet declared = new BitSet();
        private boolean prevKnown = true;
        private byte[] prev;
        String session;
        String branch = "main";
        private long epoch = 1;
        private final Merkle merkle = new Merkle();

        Chain(Line line, Trust trust) {
            this.line = line;
            this.trust = trust;
            line.chain = this;
        }

        /** The next event is not there, or is none. */
        void lose() {
            hashes.add(new byte[32]);
            lost.set(hashes.count);
            prevKnown = false;
        }

        /** How many first events are there. */
        int intact() { return lost.isEmpty() ? hashes.count : lost.nextSetBit(0) - 1; }

        /** The event hash at a place; null if there is no such place yet, or the event is lost. */
        byte[] hash(long seq) {
            return seq < 1 || seq > hashes.count || lost.get((int) seq) ? null : hashes.get((int) seq);
        }

        /** The next event. {@code id} is what findings name it by: its blob, or null. */
        void next(Event e, byte[] id) throws Stop {
            int seq = hashes.count + 1;
            boolean fork = e.type.equals("session.fork");
            if (e.seq != seq) line.find("bad-seq", seq, id);
            if (prevKnown && !Arrays.equals(e.prev, prev)) line.find("broken-link", seq, id);
            if (e.epoch < epoch) line.find("bad-epoch", seq, id);
            if (session != null && !e.session.equals(session) && !fork) line.find("bad-session", seq, id);
            if ((fork || e.type.equals("session.branch")) && !isGoodFork(e, fork, seq)) line.find("bad-fork", seq, id);
            hashes.add(e.hash);
            prev = e.hash;
            prevKnown = true;
            session = e.session;
            epoch = Math.max(epoch, e.epoch);
            if (e.withheld) line.withheld.set(seq);
            if (e.type.equals("session.seal")) seal(e, seq, id);
        }

        /** fork(e) */
        private boolean isGoodFork(Event e, boolean fork, int seq) {
            Value source = e.data.get("from");
            Value number = source == null ? null : source.get("seq");
            if (number == null || number.whole() == Long.MIN_VALUE) return false;
            long from = number.whole();
            boolean good;
            if (fork) {
                good = from == seq - 1;
                if (session != null) good &= !e.session.equals(session) && session.equals(source.string("session"));
                branch = "main";
            } else {
                String name = e.data.string("branch");
                good = isName(name, 200) && 1 <= from && from < seq;
                if (isName(name, 200)) branch = name;
            }
            byte[] hash = hash(from);
            boolean same = hash != null && HEX.formatHex(hash).equals(source.string("hash"));
            if (same) declared.set((int) from);
            return good && (same || hash == null);
        }

        /** Section 9. With an event lost neither root nor hash can be computed, and nothing is looked at. */
        private void seal(Event e, int seq, byte[] id) throws Stop {
            line.seals++;
            if (!lost.isEmpty()) return;
            Seal seal = Seal.read(e.data, seq);
            boolean good = seal != null && Arrays.equals(seal.root, merkle.root(hashes, seal.size))
                && seal.isOf(encode(session), encode(branch));
            if (good) seal.checkSignatures(trust, line, e.seconds, seq, id);
            else line.find("bad-seal", seq, id);
        }
    }

    // ------------------------------------------------------------------------------------- seals (section 9, RFC 9162)

    /** Tree hashes of a growing list; each leaf is taken in once. */
    static final class Merkle {
        /** Roots of full trees, the largest first; together they have {@code taken} leaves. */
        private final List<byte[]> peaks = new ArrayList<>();
        private int taken;

        static byte[] leaf(byte[] hash) { return sha256(new byte[] {0}, hash); }

        static byte[] node(byte[] left, byte[] right) { return sha256(new byte[] {1}, left, right); }

        byte[] root(Rows hashes, int size) {
            while (taken < size) {
                byte[] peak = leaf(hashes.get(++taken));
                for (int n = taken; n % 2 == 0; n /= 2) peak = node(peaks.remove(peaks.size() - 1), peak);
                peaks.add(peak);
            }
            byte[] root = peaks.get(peaks.size() - 1);
            for (int i = peaks.size() - 2; i >= 0; i--) root = node(peaks.get(i), root);
            return root;
        }

        /** RFC 9162, 2.1.3.2. */
        static boolean includes(byte[] hash, int index, int size, List<byte[]> path, byte[] root) {
            int fn = index;
            int sn = size - 1;
            byte[] r = leaf(hash);
            for (byte[] p : path) {
                if (sn == 0) return false;
                if (fn % 2 == 1 || fn == sn) {
                    r = node(p, r);
                    for (; fn % 2 == 0 && fn != 0; fn /= 2) sn /= 2;
                } else {
                    r = node(r, p);
                }
                fn /= 2;
                sn /= 2;
            }
            return sn == 0 && Arrays.equals(r, root);
        }

        /** RFC 9162, 2.1.4.2; equal sizes have equal roots and an empty path. */
        static boolean isConsistent(int first, byte[] firstRoot, int second, byte[] secondRoot, List<byte[]> path) {
            if (first == second) return path.isEmpty() && Arrays.equals(firstRoot, secondRoot);
            if (first > second || path.isEmpty()) return false;
            List<byte[]> nodes = new ArrayList<>(path);
            if (Integer.bitCount(first) == 1) nodes.add(0, firstRoot);
            int fn = first - 1;
            int sn = second - 1;
            for (; fn % 2 == 1; fn /= 2) sn /= 2;
            byte[] fr = nodes.get(0);
            byte[] sr = nodes.get(0);
            for (byte[] c : nodes.subList(1, nodes.size())) {
                if (sn == 0) return false;
                if (fn % 2 == 1 || fn == sn) {
                    fr = node(c, fr);
                    sr = node(c, sr);
                    for (; fn % 2 == 0 && fn != 0; fn /= 2) sn /= 2;
                } else {
                    sr = node(sr, c);
                }
                fn /= 2;
                sn /= 2;
            }
            return sn == 0 && Arrays.equals(fr, firstRoot) && Arrays.equals(sr, secondRoot);
        }
    }

    /** The data of a session.seal. */
    record Seal(int size, byte[] root, String checkpoint, List<Value> signatures) {
        /** Null if rule 1 or 4 is broken, or the root is no hash. */
        static Seal read(Value data, int seq) {
            if (!data.hasExactly("size", "root", "checkpoint", "signatures")) return null;
            String root = data.string("root");
            boolean good = seq > 1 && data.get("size").whole() == seq - 1 && data.get("signatures").isArray();
            good &= root != null && Event.HASH.matcher(root).matches() && data.string("checkpoint") != null;
            if (!good) return null;
            List<Value> signatures = data.get("signatures").items(Integer.MAX_VALUE);
            for (Value one : signatures) {
                good &= one.hasExactly("key", "sshsig") && one.string("key") != null && one.string("sshsig") != null;
            }
            if (!good) return null;
            return new Seal(seq - 1, HEX.parseHex(root), data.string("checkpoint"), signatures);
        }

        /** Rule 3; both names are encoded. */
        boolean isOf(String session, String branch) {
            return checkpoint.equals("gitjournal/" + session + "/" + branch + "\n" + size + "\n" + base64(root) + "\n");
        }

        /** Rule 3 for a proof: of any branch. */
        boolean isOf(String session) {
            String head = "gitjournal/" + session + "/";
            int end = checkpoint.indexOf('\n');
            if (!checkpoint.startsWith(head) || end < head.length()) return false;
            String branch = checkpoint.substring(head.length(), end);
            return decode(branch) != null && isOf(session, branch);
        }

        void checkSignatures(Trust trust, Line line, long time, int seq, byte[] id) throws Stop {
            byte[] message = utf8(checkpoint);
            for (Value one : signatures) {
                trust.check(line, one.string("sshsig"), "gitjournal", message, time, size, one.string("key"), seq, id);
            }
        }
    }

    // ------------------------------------------------------------------------------------------ signatures (section 9)

    /** Reads the parts of an SSH message; bad-signature where it is cut. */
    static final class Wire {
        private final ByteBuffer b;

        Wire(byte[] bytes) { b = ByteBuffer.wrap(bytes); }

        byte[] bytes(long size) throws Stop {
            if (size > b.remaining()) throw BAD_SIGNATURE;
            byte[] bytes = new byte[(int) size];
            b.get(bytes);
            return bytes;
        }

        long number() throws Stop { return Integer.toUnsignedLong(ByteBuffer.wrap(bytes(4)).getInt()); }

        byte[] string() throws Stop { return bytes(number()); }

        String text() throws Stop {
            byte[] text = string();
            return latin(text, 0, text.length);
        }

        /** A positive number without a superfluous zero byte. */
        BigInteger mpint() throws Stop {
            byte[] bytes = string();
            BigInteger value = bytes.length == 0 ? BigInteger.ZERO : new BigInteger(bytes);
            if (value.signum() <= 0 || !Arrays.equals(bytes, value.toByteArray())) throw BAD_SIGNATURE;
            return value;
        }

        void end() throws Stop { if (b.hasRemaining()) throw BAD_SIGNATURE; }

        static byte[] string(byte[] bytes) {
            return ByteBuffer.allocate(4 + bytes.length).putInt(bytes.length).put(bytes).array();
        }
    }

    /** One signature, checked without regard to who signed. */
    static final class SshSignature {
        static final String BEGIN = "-----BEGIN SSH SIGNATURE-----";
        static final String END = "-----END SSH SIGNATURE-----";
        static final Set<String> KINDS = Set.of("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ssh-rsa");

        static String fingerprint(byte[] key) { return "SHA256:" + base64(sha256(key)).replace("=", ""); }

        /**
         * The key of a right signature; null if its kind is not checked here; bad-signature if a rule is broken.
         * {@code fingerprint} is of the key that it must be of (null: of any).
         */
        static byte[] key(String armour, String namespace, byte[] message, String fingerprint) throws Stop {
            String text = armour.endsWith("\n") ? armour : armour + "\n";
            int inner = BEGIN.length() + 1;
            int end = text.length() - END.length() - 1;
            if (!text.startsWith(BEGIN + "\n") || !text.endsWith("\n" + END + "\n") || end < inner) throw BAD_SIGNATURE;
            byte[] blob = base64(text.substring(inner, end).replace("\n", ""));
            if (blob == null) throw BAD_SIGNATURE;
            Wire wire = new Wire(blob);
            boolean form = Arrays.equals(wire.bytes(6), latin("SSHSIG")) && wire.number() == 1;
            byte[] key = wire.string();
            byte[] space = wire.string();
            byte[] reserved = wire.string();
            String hash = wire.text();
            Wire signature = new Wire(wire.string());
            wire.end();
            if (!form || !Set.of("sha256", "sha512").contains(hash)) throw BAD_SIGNATURE;
            if (reserved.length > 0) throw BAD_SIGNATURE; // OpenSSH signs and checks an empty one, whatever stands there
            if (!Arrays.equals(space, latin(namespace))) throw BAD_SIGNATURE;
            if (fingerprint != null && !fingerprint.equals(fingerprint(key))) throw BAD_SIGNATURE;
            Wire inKey = new Wire(key);
            String kind = inKey.text();
            if (!KINDS.contains(kind)) return null;
            String algorithm = signature.text();
            byte[] bytes = signature.string();
            signature.end();
            byte[] digest = digest(hash.equals("sha256") ? "SHA-256" : "SHA-512").digest(message);
            byte[] signed = new Bytes().add("SSHSIG").add(Wire.string(space)).add(Wire.string(reserved))
                .add(Wire.string(latin(hash))).add(Wire.string(digest)).copy();
            boolean good;
            try {
                good = switch (kind) {
                    case "ssh-rsa" -> isRsa(inKey, algorithm, bytes, signed);
                    case "ssh-ed25519" -> algorithm.equals(kind) && isEd25519(inKey, bytes, signed);
                    default -> algorithm.equals(kind) && isEcdsa(inKey, kind, bytes, signed);
                };
            } catch (GeneralSecurityException | RuntimeException e) {
                good = false; // Java refuses some keys and signatures by throwing
            }
            if (!good) throw BAD_SIGNATURE;
            return key;
        }

        private static boolean isEd25519(Wire key, byte[] bytes, byte[] signed) throws Stop, GeneralSecurityException {
            byte[] point = key.string();
            key.end();
            if (point.length != 32 || bytes.length != 64) return false;
            byte[] info = new Bytes().add(HEX.parseHex("302a300506032b6570032100")).add(point).copy(); // RFC 8410
            PublicKey known = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(info));
            return isRight("Ed25519", known, bytes, signed);
        }

        private static boolean isRight(String name, PublicKey key, byte[] bytes, byte[] signed)
            throws GeneralSecurityException {
            Signature signature = Signature.getInstance(name);
            signature.initVerify(key);
            signature.update(signed);
            return signature.verify(bytes);
        }

        /** Neither the curve nor the range of r and s is left to Java: some versions of it looked at neither. */
        private static boolean isEcdsa(Wire key, String kind, byte[] bytes, byte[] signed)
            throws Stop, GeneralSecurityException {
            String bits = kind.substring(kind.length() - 3);
            String curve = key.text();
            byte[] point = key.string();
            key.end();
            int size = Integer.parseInt(bits) / 8;
            if (!curve.equals("nistp" + bits) || point.length != 1 + 2 * size || point[0] != 4) return false;
            AlgorithmParameters named = AlgorithmParameters.getInstance("EC");
            named.init(new ECGenParameterSpec("secp" + bits + "r1"));
            ECParameterSpec spec = named.getParameterSpec(ECParameterSpec.class);
            BigInteger x = new BigInteger(1, Arrays.copyOfRange(point, 1, 1 + size));
            BigInteger y = new BigInteger(1, Arrays.copyOfRange(point, 1 + size, 1 + 2 * size));
            BigInteger p = ((ECFieldFp) spec.getCurve().getField()).getP();
            BigInteger right = x.pow(3).add(spec.getCurve().getA().multiply(x)).add(spec.getCurve().getB());
            if (x.max(y).compareTo(p) >= 0 || y.pow(2).subtract(right).mod(p).signum() != 0) return false;
            Wire pair = new Wire(bytes);
            BigInteger r = pair.mpint();
            BigInteger s = pair.mpint();
            pair.end();
            if (r.max(s).compareTo(spec.getOrder()) >= 0) return false;
            PublicKey known = KeyFactory.getInstance("EC").generatePublic(new ECPublicKeySpec(new ECPoint(x, y), spec));
            byte[] both = new Bytes().add(fixed(r, size)).add(fixed(s, size)).copy();
            return isRight("SHA" + bits + "withECDSAinP1363Format", known, both, signed);
        }

        /** PKCS #1 v1.5 by its definition: the block is built and compared, so that nothing in it is parsed. */
        private static boolean isRsa(Wire key, String algorithm, byte[] bytes, byte[] signed) throws Stop {
            BigInteger e = key.mpint();
            BigInteger n = key.mpint();
            key.end();
            int size = (n.bitLength() + 7) / 8;
            boolean usable = n.testBit(0) && n.bitLength() >= 2048 && n.bitLength() <= 8192
                && e.testBit(0) && e.bitLength() >= 2 && e.bitLength() <= 31;
            boolean sha256 = algorithm.equals("rsa-sha2-256");
            if (!usable || !sha256 && !algorithm.equals("rsa-sha2-512")) return false;
            BigInteger s = new BigInteger(1, bytes);
            if (bytes.length != size || s.compareTo(n) >= 0) return false;
            byte[] digest = digest(sha256 ? "SHA-256" : "SHA-512").digest(signed);
            byte[] name = HEX.parseHex(sha256 ? "003031300d060960864801650304020105000420"
                : "003051300d060960864801650304020305000440"); // DigestInfo of RFC 8017, 9.2, with the zero before it
            byte[] info = new Bytes().add(name).add(digest).copy();
            byte[] block = new byte[size];
            Arrays.fill(block, 2, size, (byte) 0xff);
            block[1] = 1;
            System.arraycopy(info, 0, block, size - info.length, info.length);
            return Arrays.equals(fixed(s.modPow(e, n), size), block);
        }

        /** A number as {@code size} bytes. */
        private static byte[] fixed(BigInteger value, int size) {
            byte[] out = new byte[size];
            byte[] bytes = value.toByteArray(); // may have a zero byte more, for the sign
            int take = Math.min(size, bytes.length);
            System.arraycopy(bytes, bytes.length - take, out, size - take, take);
            return out;
        }
    }

    /** The keys that the auditor knows. */
    static final class Trust {
        static final Pattern OPTION = Pattern.compile("([^ \t,=\"]+)(?:=\"([^\"]*)\")?");
        static final Pattern TIME = Pattern.compile(
            "([0-9]{4})([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})([0-9]{2})?)?Z?");
        static final Set<String> OPTIONS = Set.of("namespaces", "valid-after", "valid-before");

        /** One line of the allowed signers; {@code namespaces} null: any. */
        record Allowed(int line, String principals, byte[] key, boolean never, String namespaces, long after,
                       long before) {
            boolean accepts(byte[] other, String namespace, long time) {
                return !never && Arrays.equals(key, other) && after <= time && time < before && hasNamespace(namespace);
            }

            private boolean hasNamespace(String namespace) {
                boolean found = namespaces == null;
                for (String pattern : found ? new String[0] : namespaces.split(",", -1)) {
                    boolean refuses = pattern.startsWith("!");
                    if (!matches(refuses ? pattern.substring(1) : pattern, namespace)) continue;
                    if (refuses) return false;
                    found = true;
                }
                return found;
            }

            /** * and ?; only the last * is tried again, so that no pattern takes long, as it may as a regex. */
            private static boolean matches(String pattern, String text) {
                int place = 0;
                int star = -1;
                int starAt = 0;
                for (int at = 0; at < text.length();) {
                    char wanted = place < pattern.length() ? pattern.charAt(place) : 0; // no namespace has a NUL
                    if (wanted == '*') {
                        star = place++;
                        starAt = at;
                    } else if (wanted == '?' || wanted == text.charAt(at)) {
                        place++;
                        at++;
                    } else if (star >= 0) {
                        at = ++starAt;
                        place = star + 1;
                    } else {
                        return false;
                    }
                }
                return pattern.substring(place).chars().allMatch(c -> c == '*');
            }
        }

        /** Null: none were given. */
        final List<Allowed> allowed;
        final Set<String> revoked = new HashSet<>();

        Trust(String allowedFile, String revokedFile) throws Exit {
            allowed = allowedFile == null ? null : new ArrayList<>();
            for (Map.Entry<Integer, String> line : lines(allowedFile).entrySet()) {
                allowed.add(allowed(line.getKey(), line.getValue()));
            }
            for (String line : lines(revokedFile).values()) revoked.add(base64(there(key(line), line)));
        }

        /** The lines that mean something, by number. */
        private static SortedMap<Integer, String> lines(String file) throws Exit {
            SortedMap<Integer, String> lines = new TreeMap<>();
            if (file == null) return lines;
            String text;
            try {
                text = utf8(Files.readAllBytes(Path.of(file)));
            } catch (IOException | RuntimeException e) {
                throw new Exit(2, "cannot read " + file);
            }
            int number = 0;
            for (String line : there(text, file + ", which is not UTF-8").split("\n")) {
                String trimmed = line.replaceFirst("\r$", "").replaceAll("^[ \t]+|[ \t]+$", "");
                number++;
                if (!trimmed.isEmpty() && !trimmed.startsWith("#")) lines.put(number, trimmed);
            }
            return lines;
        }

        private static <T> T there(T value, String line) throws Exit {
            if (value == null) throw new Exit(2, "cannot be read: " + line);
            return value;
        }

        /** The key in {@code keytype base64 [comment]}; null if it is none. */
        private static byte[] key(String text) {
            String[] fields = text.split("[ \t]+", 3);
            byte[] key = fields.length < 2 ? null : base64(fields[1]);
            return key != null && startsWith(key, Wire.string(utf8(fields[0]))) ? key : null;
        }

        private static Allowed allowed(int number, String line) throws Exit {
            String[] fields = line.split("[ \t]+", 2);
            String rest = fields.length < 2 ? "" : fields[1];
            byte[] key = key(rest);
            Map<String, String> options = new HashMap<>();
            boolean never = false;
            if (key == null) {
                Matcher option = OPTION.matcher(rest);
                int end = -1;
                do {
                    boolean next = option.find(end + 1) && option.start() == end + 1;
                    there(next ? "" : null, line);
                    end = option.end();
                    String name = option.group(1).toLowerCase(Locale.ROOT);
                    if (!OPTIONS.contains(name)) never = true;
                    else there(options.put(name, there(option.group(2), line)) == null ? "" : null, line); // only once
                } while (rest.startsWith(",", end));
                rest = rest.substring(end);
                key = there(rest.matches("(?s)[ \t].*") ? key(rest.replaceFirst("^[ \t]+", "")) : null, line);
            }
            long after = seconds(options.get("valid-after"), Long.MIN_VALUE, line);
            long before = seconds(options.get("valid-before"), Long.MAX_VALUE, line);
            return new Allowed(number, fields[0], key, never, options.get("namespaces"), after, before);
        }

        private static long seconds(String text, long none, String line) throws Exit {
            if (text == null) return none;
            Matcher time = TIME.matcher(text);
            try {
                return Event.seconds(there(time.matches() ? time : null, line));
            } catch (Stop stop) {
                throw new Exit(2, "no such time: " + line);
            }
        }

        /** signature(...): counts a right one, finds a wrong one. {@code covers} is the seq that it vouches for. */
        void check(Line line, String armour, String namespace, byte[] message, long time, int covers,
                   String fingerprint, int seq, byte[] id) throws Stop {
            byte[] key;
            try {
                key = SshSignature.key(armour, namespace, message, fingerprint);
            } catch (Stop stop) {
                line.find(stop.code, seq, id);
                return;
            }
            if (key == null) {
                line.uncheckedKinds++;
                return;
            }
            line.signatures++;
            Signer signer = line.signers.computeIfAbsent(SshSignature.fingerprint(key), k -> new Signer());
            signer.signatures++;
            if (allowed == null) return;
            for (Allowed one : revoked.contains(base64(key)) ? List.<Allowed>of() : allowed) {
                if (!one.accepts(key, namespace, time)) continue;
                line.signedTo = Math.max(line.signedTo, covers);
                line.signerEnds |= one.before != Long.MAX_VALUE;
                if (one.line < signer.line) {
                    signer.line = one.line;
                    signer.principals = one.principals;
                }
                return;
            }
            line.find("unknown-signer", seq, id);
        }
    }

    // -------------------------------------------------------------------------------------- objects of git (section 4)

    enum Kind {
        COMMIT("commit ", 64 << 10, "bad-commit"),
        TREE("tree ", 16 << 20, "bad-tree"),
        EVENT("blob ", MAX_EVENT, "bad-member"),
        FILE("blob ", Long.MAX_VALUE, "");

        final String type;
        final long max;
        final String tooLarge;

        Kind(String type, long max, String tooLarge) {
            this.type = type;
            this.max = max;
            this.tooLarge = tooLarge;
        }

        byte[] id(byte[] content, int size) {
            SHA1.update(latin(type + size + "\0"));
            SHA1.update(content, 0, size);
            return SHA1.digest();
        }
    }

    /** What git prints, read ahead (up to 4 MiB) by a thread of its own, so that git works while we do. */
    static final class Feed extends Thread {
        private static final ByteBuffer END = ByteBuffer.allocate(0);
        private final InputStream in;
        private final BlockingQueue<ByteBuffer> full = new LinkedBlockingQueue<>(64);
        private final Queue<ByteBuffer> spare = new ConcurrentLinkedQueue<>();
        private ByteBuffer now = ByteBuffer.allocate(1 << 16).limit(0);
        /** The line that git prints last, after all that it was asked for; and as many bytes of what came last. */
        byte[] lastLine;
        private byte[] tail = {};

        Feed(InputStream in, byte[] lastLine) {
            this.in = in;
            this.lastLine = lastLine;
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            try {
                for (int n = 0; n >= 0; ) {
                    ByteBuffer piece = spare.poll();
                    if (piece == null) piece = ByteBuffer.allocate(1 << 16);
                    n = read(piece.array());
                    full.put(n < 0 ? END : piece.clear().limit(n));
                }
            } catch (InterruptedException e) {
                // nobody reads on
            }
        }

        private int read(byte[] to) {
            try {
                return in.read(to);
            } catch (IOException e) {
                return -1;
            }
        }

        /** Where the next byte is. EOFException when there will be none. */
        private ByteBuffer now() throws EOFException {
            while (!now.hasRemaining()) {
                if (now == END || full.isEmpty() && Arrays.equals(tail, lastLine)) throw new EOFException();
                spare.add(now);
                try {
                    now = full.take();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e); // nobody interrupts this thread
                }
                byte[] both = new Bytes().add(tail).add(now.array(), Math.max(0, now.limit() - 50), now.limit()).copy();
                tail = Arrays.copyOfRange(both, Math.max(0, both.length - lastLine.length), both.length);
            }
            return now;
        }

        int get() throws EOFException { return now().get(); }

        void get(byte[] to, int size) throws EOFException {
            for (int n = 0, take; n < size; n += take) {
                take = Math.min(size - n, now().remaining());
                now.get(to, n, take);
            }
        }

        void digest(long size, MessageDigest... digests) throws EOFException {
            for (long left = size; left > 0; ) {
                int take = (int) Math.min(left, now().remaining());
                for (MessageDigest digest : digests) digest.update(now.array(), now.position(), take);
                now.position(now.position() + take);
                left -= take;
            }
        }
    }

    /** One child, {@code git cat-file}. Objects are answered in the order in which they were asked for. */
    static final class Git implements AutoCloseable {
        private static final String[] COMMAND = {"--no-replace-objects", "-c", "core.bigFileThreshold=32m",
            "-c", "core.multiPackIndex=false", "cat-file", "--batch-command", "--buffer"};
        private static final Map<String, String> ENVIRONMENT = Map.of("GIT_NO_REPLACE_OBJECTS", "1",
            "GIT_ALLOW_PROTOCOL", "none", "GIT_NO_LAZY_FETCH", "1", "GIT_CONFIG_NOSYSTEM", "1",
            "GIT_CONFIG_GLOBAL", "/dev/null", "GIT_OPTIONAL_LOCKS", "0", "GIT_TERMINAL_PROMPT", "0",
            "GIT_ALLOC_LIMIT", "256m");

        /** A group of ids, of which {@code answered} are done with. */
        private static final class Asked {
            final Rows ids;
            int answered;
            /** Asked for last. No repository can have it, so git's answer shows where the group ends. */
            final byte[] end = new byte[20];

            Asked(Rows ids) {
                this.ids = ids;
                RANDOM.nextBytes(end);
            }

            String lastLine() { return HEX.formatHex(end) + " missing\n"; }
        }

        private static final SecureRandom RANDOM = new SecureRandom();
        final Path folder;
        private final Deque<Asked> asked = new ArrayDeque<>();
        /** Requests are written by another thread: git may wait for us to read before it takes them. */
        private final ExecutorService writer = Executors.newSingleThreadExecutor();
        private Process process;
        private Feed feed;
        private final byte[] line = new byte[100];
        private long length;
        /** The object that was read last, with room for one byte more. */
        byte[] content = new byte[1 << 16];
        int size;

        Git(Path folder) { this.folder = folder; }

        void ask(Rows ids) throws Exit {
            if (ids.count == 0) return;
            asked.add(new Asked(ids));
            if (process == null) {
                start();
            } else {
                feed.lastLine = latin(asked.getLast().lastLine());
                write(asked.getLast());
            }
        }

        private void start() throws Exit {
            List<String> command = new ArrayList<>(List.of("git", "--git-dir=" + folder));
            Collections.addAll(command, COMMAND);
            ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD);
            builder.environment().keySet().removeIf(name -> name.startsWith("GIT_"));
            builder.environment().putAll(ENVIRONMENT);
            try {
                process = builder.start();
            } catch (IOException e) {
                throw new Exit(4, "git cannot be started: " + e.getMessage());
            }
            feed = new Feed(process.getInputStream(), latin(asked.getLast().lastLine()));
            asked.forEach(this::write);
        }

        private void write(Asked group) {
            Bytes lines = new Bytes();
            for (int i = group.answered + 1; i <= group.ids.count; i++) {
                lines.add("contents ").hex(group.ids.get(i)).add("\n");
            }
            lines.add("contents ").hex(group.end).add("\nflush\n");
            OutputStream out = process.getOutputStream();
            writer.execute(() -> {
                try {
                    out.write(lines.b, 0, lines.n);
                    out.flush();
                } catch (IOException e) {
                    // git has ended; who reads its answers will see that
                }
            });
        }

        /** Ends the child. Another one gets what is not answered when the next answer is wanted. */
        private void stop() {
            if (process == null) return;
            process.destroyForcibly();
            feed.interrupt();
            process = null;
        }

        /** Drops what was asked for. */
        void reset() {
            if (!asked.isEmpty()) stop();
            asked.clear();
        }

        @Override
        public void close() {
            stop();
            writer.shutdownNow();
        }

        /** One object, asked for and answered. */
        String object(byte[] id, Kind kind) throws Exit {
            Rows one = new Rows(20);
            one.add(id);
            ask(one);
            return object(kind);
        }

        /** The next object: null if it is good, and then {@code content[0 .. size)} holds it; else a code. */
        String object(Kind kind) throws Exit { return answer(kind, null); }

        /** The next object as a side file: its bytes are hashed and not held. */
        String file(Side side) throws Exit { return answer(Kind.FILE, side); }

        private String answer(Kind kind, Side side) throws Exit {
            if (process == null) start();
            Asked group = asked.getFirst();
            byte[] id = group.ids.get(group.answered + 1);
            String code;
            try {
                code = readHeader(id, kind);
                if (code == null) code = side == null ? read(id, kind) : hash(id, side);
            } catch (EOFException e) {
                code = "bad-object";
            }
            // What is of another type, or too large, is not read. And git prints a loose blob as it lies there, with
            // more or less bytes than the size it says. So another child goes on behind all that is not good.
            boolean inStep = code == null || code.equals("missing-object") || code.equals("bad-file");
            if (++group.answered == group.ids.count) {
                asked.removeFirst();
                if (inStep && !isNext(group.lastLine())) {
                    inStep = false;
                    code = "bad-object"; // it has printed more than it says
                }
            }
            if (!inStep) stop();
            return code;
        }

        private boolean isNext(String text) {
            try {
                return readLine().equals(text);
            } catch (EOFException e) {
                return false;
            }
        }

        private String readLine() throws EOFException {
            for (int n = 0; n < line.length; ) {
                line[n++] = (byte) feed.get();
                if (line[n - 1] == '\n') return latin(line, 0, n);
            }
            throw new EOFException(); // no line of git is so long
        }

        /** The line before an object: its id, type and size. */
        private String readHeader(byte[] id, Kind kind) throws EOFException {
            String text = readLine();
            if (!text.startsWith(HEX.formatHex(id) + " ")) throw new EOFException();
            if (text.startsWith("missing", 41)) return "missing-object";
            if (!text.startsWith(kind.type, 41)) return "bad-object";
            int begin = 41 + kind.type.length();
            int end = text.length() - 1;
            length = end - begin > 17 ? Long.MAX_VALUE : whole(line, begin, end);
            return length > kind.max ? kind.tooLarge : null;
        }

        private String read(byte[] id, Kind kind) throws EOFException {
            size = (int) length;
            if (content.length <= size) content = new byte[size + 1];
            feed.get(content, size);
            if (feed.get() != '\n') return "bad-object";
            return Arrays.equals(kind.id(content, size), id) ? null : "bad-object";
        }

        private String hash(byte[] id, Side side) throws EOFException {
            MessageDigest sha1 = digest("SHA-1");
            MessageDigest sha256 = digest("SHA-256");
            sha1.update(latin("blob " + length + "\0"));
            feed.digest(length, sha1, sha256);
            if (feed.get() != '\n' || !Arrays.equals(sha1.digest(), id)) return "bad-object";
            return length == side.size && Arrays.equals(sha256.digest(), side.sha256) ? null : "bad-file";
        }
    }

    // ------------------------------------------------------------------------------------------------ refs (section 5)

    /** The lines of a stream, one at a time; a longer one than allowed is passed over. */
    static final class Lines {
        private final InputStream in;
        private final int max;
        private final byte[] piece = new byte[1 << 16];
        private int at;
        private int end;
        final Bytes line = new Bytes();
        boolean tooLong;
        /** The line has no newline at its end. */
        boolean cut;

        Lines(InputStream in, int max) {
            this.in = in;
            this.max = max;
        }

        boolean next() throws IOException {
            line.n = 0;
            tooLong = false;
            for (cut = false; ; cut = true) {
                if (at == end) {
                    at = 0;
                    end = Math.max(0, in.read(piece));
                    if (end == 0) return cut;
                }
                int stop = at;
                while (stop < end && piece[stop] != '\n') stop++;
                tooLong |= line.n + stop - at > max;
                if (!tooLong) line.add(piece, at, stop);
                at = stop;
                if (stop < end) break;
            }
            at++;
            cut = false;
            return true;
        }

        String text() { return tooLong ? "" : latin(line.b, 0, line.n); }
    }

    static boolean isFile(Path path) { return Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS); }

    static boolean isFolder(Path path) { return Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS); }

    /** A ref that is a line, its parts as they are spelled; {@code id} null: it holds none. */
    record Ref(String name, String session, String branch, byte[] id) {
        private static final Pattern PACKED = Pattern.compile("(?s)([0-9a-f]{40}) (refs/(?:heads|remotes)/.*)");
        private static final Pattern LOOSE = Pattern.compile("([0-9a-f]{40})\n");

        /** The largest packed-refs and shallow. */
        private static final long MAX_GIT_FILE = 256L << 20;

        /** The refs of a repository that are lines, by the bytes of their names; foreign ones are counted. */
        static List<Ref> read(Path folder, int[] foreign) throws IOException {
            for (String name : List.of("packed-refs", "shallow")) {
                Path file = folder.resolve(name);
                if (!isFile(file)) continue;
                if (Files.size(file) > MAX_GIT_FILE) throw new IOException(name + " is too large");
                Files.newInputStream(file).close(); // one that cannot be read may have a line
            }
            SortedMap<String, byte[]> ids = new TreeMap<>(); // names have one char for each byte here
            Path packed = folder.resolve("packed-refs");
            if (isFile(packed)) {
                try (InputStream in = Files.newInputStream(packed)) {
                    for (Lines lines = new Lines(in, 1 << 16); lines.next(); ) {
                        Matcher line = PACKED.matcher(lines.text());
                        if (line.matches()) ids.put(line.group(2), HEX.parseHex(line.group(1)));
                    }
                }
            }
            if (isFolder(folder.resolve("refs"))) {
                readFolder(folder, "refs/heads", ids);
                readFolder(folder, "refs/remotes", ids);
            }
            List<Ref> refs = new ArrayList<>();
            ids.forEach((name, id) -> {
                String[] parts = name.split("/", -1);
                int last = parts.length - 1;
                boolean remote = parts[1].equals("remotes");
                if (remote && last == 3 && parts[3].equals("HEAD")) return;
                String session = parts[last - 1];
                String branch = parts[last];
                String text = utf8(latin(name));
                boolean line = last == (remote ? 4 : 3) && decode(session) != null && decode(branch) != null;
                // A remote is called by a name, too, but as it stands.
                if (line && (!remote || isName(utf8(latin(parts[2])), 200))) refs.add(new Ref(text, session, branch, id));
                else foreign[0]++;
            });
            return refs;
        }

        private static void readFolder(Path folder, String prefix, Map<String, byte[]> ids) throws IOException {
            Path root = folder.resolve(prefix);
            // The bytes of a file's name are had from its URI only; its text depends on the locale.
            int begin = root.toUri().getRawPath().replaceFirst("/$", "").length();
            Queue<Path> folders = new ArrayDeque<>(isFolder(root) ? List.of(root) : List.of());
            while (!folders.isEmpty()) {
                try (DirectoryStream<Path> entries = Files.newDirectoryStream(folders.remove())) {
                    for (Path entry : entries) {
                        byte[] name = unpercent(entry.toUri().getRawPath().substring(begin));
                        String ref = prefix + latin(name, 0, name.length);
                        // Not isFolder, for which what cannot be looked at is none.
                        if (Files.readAttributes(entry, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS).isDirectory()) {
                            folders.add(entry);
                        } else if (!ref.endsWith(".lock")) ids.put(ref, readId(entry));
                    }
                }
            }
        }

        private static byte[] readId(Path file) throws IOException {
            if (!isFile(file)) return null;
            try (InputStream in = Files.newInputStream(file)) {
                byte[] text = in.readNBytes(42);
                Matcher id = LOOSE.matcher(latin(text, 0, text.length));
                return id.matches() ? HEX.parseHex(id.group(1)) : null;
            }
        }
    }

    // ------------------------------------------------------------------------------ commits and trees (format 5 and 6)

    /** What a commit in the form of format 6 says. {@code signature} is the text of its gpgsig header, or null. */
    record Commit(byte[] tree, int seq, String session, String type, String hash, String signature) {
        private static final Pattern HEAD = Pattern.compile("tree ([0-9a-f]{40})\n(?:parent [0-9a-f]{40}\n)?"
            + "author (" + Event.WHO + ") <\\2@gitjournal\\.invalid> (0|[1-9][0-9]{0,11}) \\+0000\n"
            + "committer gitjournal <gitjournal@gitjournal\\.invalid> \\3 \\+0000\n");
        private static final Pattern MESSAGE = Pattern.compile("\n([a-z0-9_.]{1,64}) #([1-9][0-9]{0,7})\n\n"
            + "Session: ([^\n\0]{1,200})\nEvent-Hash: sha256:([0-9a-f]{64})\n");
        private static final Pattern INNER = Pattern.compile(" [A-Za-z0-9+/=]+");
        private static final Pattern PARENT = Pattern.compile("[^\n]*\nparent ([0-9a-f]{40})\n");

        /** Null for bytes in any other form. */
        static Commit parse(byte[] b, int size) {
            String text = latin(b, 0, size);
            Matcher head = HEAD.matcher(text);
            if (!head.lookingAt()) return null;
            String rest = text.substring(head.end());
            String signature = null;
            if (rest.startsWith("gpgsig ")) {
                int end = rest.indexOf("\n\n");
                if (end < 0 || !isBlock(rest.substring(7, end).split("\n", -1))) return null;
                signature = rest.substring(7, end);
                rest = rest.substring(end + 1);
            }
            Matcher message = MESSAGE.matcher(rest);
            if (!message.matches() || !Event.WORDS.matcher(message.group(1)).matches()) return null;
            String session = utf8(latin(message.group(3)));
            if (!isName(session, 200)) return null;
            return new Commit(HEX.parseHex(head.group(1)), Integer.parseInt(message.group(2)), session,
                message.group(1), message.group(4), signature);
        }

        private static boolean isBlock(String[] lines) {
            int last = lines.length - 1;
            return last >= 2 && lines[0].equals(SshSignature.BEGIN) && lines[last].equals(" " + SshSignature.END)
                && Arrays.stream(lines, 1, last).allMatch(line -> INNER.matcher(line).matches());
        }

        /** The id in the second line, if that is one of a parent, whatever the bytes are; else null. */
        static byte[] parent(byte[] b, int size) {
            Matcher parent = PARENT.matcher(latin(b, 0, size));
            return parent.lookingAt() ? HEX.parseHex(parent.group(1)) : null;
        }
    }

    /** Goes over the entries of a tree. */
    static final class Entries {
        private final byte[] b;
        private final int size;
        private int at;
        String mode;
        String name;
        byte[] id;

        Entries(byte[] b, int size) {
            this.b = b;
            this.size = size;
        }

        boolean next() throws Stop {
            if (at == size) return false;
            int zero = at;
            while (zero < size && b[zero] != 0) zero++;
            int space = at;
            while (space < zero && b[space] != ' ') space++;
            if (space == at || space + 1 >= zero || size - zero < 21) throw BAD_TREE;
            mode = latin(b, at, space);
            name = latin(b, space + 1, zero);
            at = zero + 21;
            id = Arrays.copyOfRange(b, zero + 1, at);
            return true;
        }
    }

    /** A root or middle tree: its folders by name (the first of a name counts), or the code why there is none. */
    record Folders(byte[] id, String code, Map<String, byte[]> ids) {
        static final Folders ABSENT = new Folders(null, "missing-object", Map.of());

        static Folders read(Git git, byte[] id) throws Exit {
            if (id == null) return ABSENT;
            Map<String, byte[]> ids = new HashMap<>();
            String code = git.object(id, Kind.TREE);
            try {
                Entries entries = new Entries(git.content, git.size);
                while (code == null && entries.next()) {
                    boolean ours = entries.mode.equals("40000") && entries.name.length() <= 4;
                    if (ours) ids.putIfAbsent(entries.name, entries.id);
                }
            } catch (Stop stop) {
                code = stop.code;
            }
            return new Folders(id, code, code == null ? ids : Map.of());
        }
    }

    /** An event whose commit is compared: {@code actual} is its id, {@code derived} the bytes if these have another. */
    record Compared(int seq, long seconds, byte[] actual, byte[] derived) {}

    /** A side file that is to be read. */
    record Wanted(int seq, byte[] id, Side side) {}

    /** The events of one leaf tree, and what is asked for because of them. */
    static final class Page {
        private static final Pattern NAME = Pattern.compile("([0-9]{8})\\.(?:json|([1-9][0-9]{0,8}))");
        private static final SortedMap<String, byte[]> NO_FILES = new TreeMap<>();
        final int first;
        final int last;
        /** The leaf tree, null if there is none; and whether its events are lost. */
        final byte[] id;
        boolean lost;
        private final byte[][] blobs = new byte[100][];
        private final Map<Integer, SortedMap<String, byte[]>> files = new HashMap<>();
        final Rows asks = new Rows(20);
        final List<Compared> compared = new ArrayList<>();
        final List<Wanted> wanted = new ArrayList<>();

        Page(int base, int n, byte[] id) {
            first = Math.max(base, 1);
            last = Math.min(base + 99, n);
            this.id = id;
        }

        void read(byte[] content, int size) throws Stop {
            Set<String> others = new HashSet<>();
            Matcher name = NAME.matcher("");
            for (Entries entries = new Entries(content, size); entries.next(); ) {
                boolean good = entries.mode.equals("100644") && name.reset(entries.name).matches();
                if (!good) throw BAD_TREE;
                int seq = Integer.parseInt(name.group(1));
                boolean twice;
                if (seq < first || seq > last) {
                    twice = !others.add(entries.name); // not of this leaf, which comparing shows
                } else if (name.group(2) == null) {
                    twice = blobs[seq % 100] != null;
                    blobs[seq % 100] = entries.id;
                } else {
                    twice = files.computeIfAbsent(seq, s -> new TreeMap<>()).put(name.group(2), entries.id) != null;
                }
                if (twice) throw BAD_TREE;
            }
        }

        byte[] blob(int seq) { return lost ? null : blobs[seq % 100]; }

        /** The side files of an event, sorted by the bytes of their names as git does. */
        SortedMap<String, byte[]> files(int seq) { return files.getOrDefault(seq, NO_FILES); }
    }

    /** Trees and commits as they follow from the events. */
    static final class Deriver {
        final Bytes leaf = new Bytes();
        /** Without the entry that still changes. */
        private final Bytes middle = new Bytes();
        private final Bytes root = new Bytes();
        final Bytes commit = new Bytes();
        byte[] leafId;
        byte[] middleId;
        byte[] rootId;
        byte[] commitId;
        long seconds;

        /** The next event. */
        void push(Event e, byte[] blob, SortedMap<String, byte[]> files, byte[] parent) {
            int seq = e.seq;
            if (seq % 100 == 0) {
                folder(middle, (seq - 1) / 100 % 100, 2, leafId);
                leaf.n = 0;
            }
            if (seq % 10_000 == 0) {
                folder(root, (seq - 1) / 10_000, 4, middleId);
                middle.n = 0;
            }
            files.forEach((number, id) -> leaf.add("100644 ").number(seq, 8).add("." + number + "\0").add(id));
            leaf.add("100644 ").number(seq, 8).add(".json\0").add(blob);
            leafId = Kind.TREE.id(leaf.b, leaf.n);
            middleId = idWith(middle, seq / 100 % 100, 2, leafId);
            rootId = idWith(root, seq / 10_000, 4, middleId);
            seconds = Math.max(seconds, e.seconds);
            commit.n = 0;
            commit.add("tree ").hex(rootId);
            if (parent != null) commit.add("\nparent ").hex(parent);
            String time = seconds + " +0000\n";
            commit.add("\nauthor " + e.actor + " <" + e.actor + "@gitjournal.invalid> " + time
                + "committer gitjournal <gitjournal@gitjournal.invalid> " + time + "\n" + e.type + " #" + seq
                + "\n\nSession: " + e.session + "\nEvent-Hash: sha256:").hex(e.hash).add("\n");
            commitId = Kind.COMMIT.id(commit.b, commit.n);
        }

        private static void folder(Bytes tree, int number, int digits, byte[] id) {
            tree.add("40000 ").number(number, digits).add("\0").add(id);
        }

        /** The id of a tree with one more folder, which is not kept. */
        private static byte[] idWith(Bytes tree, int number, int digits, byte[] id) {
            int keep = tree.n;
            folder(tree, number, digits, id);
            byte[] whole = Kind.TREE.id(tree.b, tree.n);
            tree.n = keep;
            return whole;
        }
    }

    // --------------------------------------------------------------------------------------- a line in git (section 8)

    static final class GitLine {
        private final Git git;
        private final Trust trust;
        private final boolean walk;
        private final Ref ref;
        private final Line line;
        private final Chain chain;
        private final Event event = new Event();
        private final Deriver deriver = new Deriver();
        private boolean deriving = true;
        private boolean comparing = true;
        /** What the walk found: the commits from the head back to place {@code walked}, and the parent of that one. */
        private final Rows actual = new Rows(20);
        private int walked;
        private byte[] walkedParent;

        private GitLine(Git git, Ref ref, Trust trust, boolean walk) {
            this.git = git;
            this.trust = trust;
            this.walk = walk;
            this.ref = ref;
            line = new Line(ref.name);
            line.commit = HEX.formatHex(ref.id);
            chain = new Chain(line, trust);
        }

        /**
         * Checks a line. The first run derives all commits without a walk: if they and their trees are good objects
         * and the last one is the head, a walk would find just these. Otherwise a second run walks.
         */
        static Line check(Git git, Ref ref, Trust trust) throws Exit {
            for (boolean walk : new boolean[] {false, true}) {
                GitLine run = new GitLine(git, ref, trust, walk);
                try {
                    run.check();
                    return run.line;
                } catch (Stop stop) {
                    git.reset();
                    if (stop == ENOUGH) return run.line;
                }
            }
            throw new IllegalStateException(); // the second run does not ask for a walk
        }

        private void check() throws Stop, Exit {
            String code = git.object(ref.id, Kind.COMMIT);
            Commit head = code == null ? Commit.parse(git.content, git.size) : null;
            if (head == null) {
                line.find(code == null ? "bad-commit" : code, 0, ref.id);
                return;
            }
            line.headSeq = head.seq;
            if (!walk && head.signature != null) throw WALK; // what is derived has no signature
            if (walk) walk();
            Folders root = Folders.read(git, head.tree);
            for (int base = 0; base <= head.seq; base += 10_000) checkMiddle(root, base);
            if (!walk && !Arrays.equals(deriver.commitId, ref.id)) throw WALK;
            line.headHash = chain.hash(head.seq);
            if (chain.session == null) return;
            boolean named = encode(chain.session).equals(ref.session) && encode(chain.branch).equals(ref.branch);
            if (!named) line.find("wrong-ref", 0, ref.id);
        }

        /** walk(head, n) */
        private void walk() throws Stop, Exit {
            byte[] child = null;
            byte[] id = ref.id;
            for (int seq = line.headSeq; id != null; seq--) {
                String code = git.object(id, Kind.COMMIT);
                if (code != null) {
                    if (code.equals("missing-object") && child != null && isShallow(child)) line.leftOut = seq;
                    else line.find(code, seq, id);
                    return;
                }
                actual.add(id);
                walked = seq;
                byte[] parent = Commit.parent(git.content, git.size);
                walkedParent = seq == 1 ? null : parent;
                if (seq == 1 && parent != null) line.find("bad-commit", 1, parent);
                if (seq > 1 && parent == null) line.find("bad-commit", seq, id);
                child = id;
                id = walkedParent;
            }
        }

        private boolean isShallow(byte[] commit) throws Exit {
            Path file = git.folder.resolve("shallow");
            if (!isFile(file)) return false;
            try (InputStream in = Files.newInputStream(file)) {
                for (Lines lines = new Lines(in, 40); lines.next(); ) {
                    if (lines.text().equals(HEX.formatHex(commit))) return true;
                }
                return false;
            } catch (IOException e) {
                throw new Exit(4, "cannot read " + file);
            }
        }

        /** The id of a commit that the walk came to. */
        private byte[] actual(int seq) { return actual.get(line.headSeq - seq + 1); }

        /**
         * The 10,000 events of a middle tree. Git has work ahead of us, in this order: the events of a leaf, the leaf
         * tree two further on, then what is compared of the leaf before.
         */
        private void checkMiddle(Folders root, int base) throws Stop, Exit {
            Folders middle = root;
            if (root.code == null) middle = Folders.read(git, root.ids.get(String.format("%04d", base / 10_000)));
            int count = (Math.min(base + 9_999, line.headSeq) - base) / 100 + 1;
            Page[] pages = new Page[count + 3]; // the last three stay null
            for (int i = 0; i < count; i++) {
                pages[i] = new Page(base + 100 * i, line.headSeq, middle.ids.get(String.format("%02d", i)));
            }
            ask(null, pages[0], null);
            ask(null, pages[1], null);
            readTree(pages[0], middle);
            readTree(pages[1], middle);
            ask(pages[0], pages[2], null);
            for (int i = 0; i < count; i++) {
                checkEvents(pages[i]);
                ask(pages[i + 1], pages[i + 3], pages[i]);
                readTree(pages[i + 2], middle);
                if (i > 0) compare(pages[i - 1]);
                if (i > 0) pages[i - 1] = null;
            }
            compare(pages[count - 1]);
        }

        /** Asks for the events of a page, the tree of another and what is compared of a third; each may be null. */
        private void ask(Page events, Page tree, Page derived) throws Exit {
            Rows ids = new Rows(20);
            for (int seq = events == null ? 1 : events.first; events != null && seq <= events.last; seq++) {
                if (events.blob(seq) != null) ids.add(events.blob(seq));
            }
            if (tree != null && tree.id != null) ids.add(tree.id);
            git.ask(ids);
            if (derived != null) git.ask(derived.asks);
        }

        private void readTree(Page page, Folders middle) throws Stop, Exit {
            if (page == null) return;
            String code;
            byte[] id = page.id;
            if (id != null) {
                code = git.object(Kind.TREE);
                try {
                    if (code == null) page.read(git.content, git.size);
                } catch (Stop stop) {
                    code = stop.code;
                }
            } else {
                Folders why = middle.code == null ? Folders.ABSENT : middle;
                code = why.code;
                id = why.id;
            }
            page.lost = code != null;
            if (page.lost) line.find(code, page.first, id);
        }

        private void checkEvents(Page page) throws Stop, Exit {
            for (int seq = page.first; seq <= page.last; seq++) {
                byte[] blob = page.blob(seq);
                String code = blob == null ? "missing-object" : git.object(Kind.EVENT);
                if (code == null) code = event.read(git.content, git.size);
                if (code == null) {
                    chain.next(event, blob);
                    checkFiles(page, seq);
                } else {
                    chain.lose();
                    if (!page.lost) line.find(code, seq, blob);
                }
                deriving &= code == null && event.seq == seq;
                if (!deriving && !walk) throw WALK;
                if (deriving) derive(page, seq, blob);
            }
            for (Wanted one : page.wanted) page.asks.add(one.id);
        }

        /** files(e) */
        private void checkFiles(Page page, int seq) throws Stop {
            SortedMap<String, byte[]> files = page.files(seq);
            int count = event.files.size();
            boolean numbered = files.size() == count;
            for (int k = 1; k <= count; k++) numbered &= files.containsKey(String.valueOf(k));
            if (!numbered) line.find("bad-file", seq, event.hash);
            for (int k = 1; numbered && k <= count; k++) {
                page.wanted.add(new Wanted(seq, files.get(String.valueOf(k)), event.files.get(k - 1)));
            }
        }

        private void derive(Page page, int seq, byte[] blob) {
            byte[] parent = deriver.commitId;
            if (walk) parent = seq == walked ? walkedParent : seq > walked ? actual(seq - 1) : null;
            deriver.push(event, blob, page.files(seq), parent);
            if (walk && seq < walked) return;
            byte[] actual = walk ? actual(seq) : deriver.commitId;
            boolean same = Arrays.equals(actual, deriver.commitId);
            if (!walk || !same) page.asks.add(actual);
            page.asks.add(deriver.leafId);
            page.asks.add(deriver.middleId);
            page.asks.add(deriver.rootId);
            page.compared.add(new Compared(seq, deriver.seconds, actual, same ? null : deriver.commit.copy()));
        }

        /** compare(e) for the events of a page; then the contents of their side files. */
        private void compare(Page page) throws Stop, Exit {
            int asked = 0;
            for (Compared one : page.compared) {
                if (!walk || one.derived != null) {
                    asked++;
                    String code = git.object(Kind.COMMIT);
                    if (code != null && !walk) throw WALK;
                    if (comparing && walk) comparing = code == null ? isSigned(one) : found(code, one);
                }
                for (int i = 0; i < 3; i++) {
                    asked++;
                    String code = git.object(Kind.TREE);
                    if (code != null && !walk) throw WALK;
                    if (code != null && comparing) line.find(code, one.seq, page.asks.get(asked));
                }
            }
            deriving &= comparing;
            for (Wanted one : page.wanted) {
                String code = git.file(one.side);
                if (code == null) line.sideFiles++;
                else line.find(code, one.seq, one.id);
            }
        }

        /** Whether a commit that is not the derived one (it has just been read) is that one with a signature. */
        private boolean isSigned(Compared one) throws Stop {
            Commit commit = Commit.parse(git.content, git.size);
            if (commit == null) return found("bad-commit", one);
            if (commit.signature != null) {
                String plain = latin(one.derived, 0, one.derived.length);
                int at = plain.indexOf("\n\n") + 1;
                String header = "gpgsig " + commit.signature + "\n";
                byte[] signed = latin(plain.substring(0, at) + header + plain.substring(at));
                if (Arrays.equals(Kind.COMMIT.id(signed, signed.length), one.actual)) {
                    String armour = commit.signature.replace("\n ", "\n");
                    trust.check(line, armour, "git", one.derived, one.seconds, one.seq, null, one.seq, one.actual);
                    return true;
                }
            }
            Commit derived = Commit.parse(one.derived, one.derived.length);
            if (!commit.hash.equals(derived.hash)) return found("bad-hash", one);
            boolean same = commit.seq == derived.seq && commit.session.equals(derived.session)
                && commit.type.equals(derived.type);
            return found(same ? "bad-tree" : "bad-commit", one);
        }

        private boolean found(String code, Compared one) throws Stop {
            line.find(code, one.seq, one.actual);
            return false;
        }
    }

    /** The lines of a repository. */
    static List<Line> checkGit(Path path, Options options, Trust trust, int[] foreign) throws Exit, IOException {
        Path folder = Files.isRegularFile(path.resolve("HEAD")) && Files.isDirectory(path.resolve("objects"))
            ? path : path.resolve(".git");
        boolean found = Files.isRegularFile(folder.resolve("HEAD")) && Files.isDirectory(folder.resolve("objects"));
        if (!found || Files.isDirectory(folder.resolve("reftable"))) {
            throw new Exit(4, "no repository, or one with reftable: " + path);
        }
        List<Ref> refs = Ref.read(folder, foreign);
        if (options.name != null) {
            String name = options.name.contains("/") ? options.name : options.name + "/main";
            refs.removeIf(ref -> !name.equals(ref.session + "/" + ref.branch));
        }
        if (refs.isEmpty()) throw new Exit(4, "no line of a journal, or none of that name");
        if (options.expectHead != null && (options.name == null || refs.size() > 1)) {
            throw new Exit(2, "an expected head needs the name of exactly one line");
        }
        List<Line> lines = new ArrayList<>();
        try (Git git = new Git(folder)) {
            for (Ref ref : refs) {
                Line line = ref.id == null ? new Line(ref.name) : GitLine.check(git, ref, trust);
                if (ref.id == null) line.findings.add(new Finding(0, "wrong-ref", ""));
                lines.add(line);
            }
        }
        compareLines(refs, lines);
        return lines;
    }

    /** Section 7, equivocation. */
    private static void compareLines(List<Ref> refs, List<Line> lines) {
        Map<String, List<Line>> sessions = new HashMap<>();
        for (int i = 0; i < refs.size(); i++) {
            Line line = lines.get(i);
            Chain here = line.chain;
            if (here == null || here.session == null || !encode(here.session).equals(refs.get(i).session)) continue;
            List<Line> others = sessions.computeIfAbsent(here.session, session -> new ArrayList<>());
            for (Line other : others) {
                Chain there = other.chain;
                int both = Math.min(here.intact(), there.intact());
                int common = here.hashes.common(there.hashes, both);
                boolean declared = here.declared.get(common) || there.declared.get(common);
                if (common == both || declared || line.isFull()) continue;
                line.findings.add(new Finding(common + 1, "equivocation", HEX.formatHex(here.hash(common + 1))));
            }
            others.add(line);
        }
    }

    // -------------------------------------------------------------------------- exports and proofs (sections 9 and 11)

    static Line checkExport(String file, Trust trust) throws IOException {
        Line line = new Line(null);
        Chain chain = new Chain(line, trust);
        Event event = new Event();
        try (InputStream in = Files.newInputStream(Path.of(file))) {
            for (Lines lines = new Lines(in, MAX_EVENT); lines.next(); ) {
                int seq = ++line.headSeq;
                String code = lines.cut ? "truncated" : lines.tooLong ? "bad-member" : null;
                if (code == null) code = event.read(lines.line.room(1), lines.line.n);
                if (code != null) {
                    chain.lose();
                    line.find(code, seq, null);
                    continue;
                }
                chain.next(event, null);
                for (int k = 1; k <= event.files.size(); k++) {
                    code = checkSide(Path.of(file + ".files", seq + "." + k), event.files.get(k - 1));
                    if (code == null) line.sideFiles++;
                    else line.find(code, seq, event.hash);
                }
            }
        } catch (Stop stop) {
            // 1000 findings
        }
        line.headHash = chain.hash(line.headSeq);
        return line;
    }

    private static String checkSide(Path file, Side side) {
        MessageDigest sha256 = digest("SHA-256");
        try {
            if (!isFile(file)) return "missing-object";
            if (Files.size(file) != side.size) return "bad-file";
            try (InputStream in = Files.newInputStream(file)) {
                byte[] piece = new byte[1 << 16];
                for (int n = in.read(piece); n > 0; n = in.read(piece)) sha256.update(piece, 0, n);
            }
            return Arrays.equals(sha256.digest(), side.sha256) ? null : "bad-file";
        } catch (IOException e) {
            return "missing-object";
        }
    }

    static Line checkProof(byte[] file, Trust trust) {
        Line line = new Line(null);
        try {
            checkProof(line, file, trust);
        } catch (Stop stop) {
            line.findings.add(new Finding(0, stop.code, ""));
        }
        return line;
    }

    /** At most 1,000 of the bytes , [ { stand outside of strings: each value takes far more room than its text. */
    private static boolean hasFewValues(byte[] text) {
        int marks = 0;
        boolean quoted = false;
        for (int at = 0; at < text.length && marks <= 1000; at++) {
            byte c = text[at];
            if (c == '\\') at++;
            else if (c == '"') quoted = !quoted;
            else if (!quoted && (c == ',' || c == '[' || c == '{')) marks++;
        }
        return marks <= 1000;
    }

    private static void checkProof(Line line, byte[] file, Trust trust) throws Stop {
        // Rule 1: the file.
        if (file.length > MAX_PROOF) throw BAD_JSON;
        boolean newline = file.length > 0 && file[file.length - 1] == '\n';
        int size = newline ? file.length - 1 : file.length;
        byte[] text = Arrays.copyOf(file, size + 1);
        if (!hasFewValues(text)) throw BAD_JSON;
        new Json().scan(text, size);
        if (!newline) throw NOT_CANONICAL;
        Value proof = Value.at(text, 0);
        if (!proof.isObject()) throw BAD_JSON;
        boolean versioned = proof.get("version") != null && proof.get("version").whole() == 1;
        if (!versioned || !"gitjournal-proof".equals(proof.string("format"))) throw BAD_VERSION;
        boolean inclusion = "inclusion".equals(proof.string("kind"));
        if (!inclusion && !"consistency".equals(proof.string("kind"))) throw BAD_MEMBER;
        List<String> names = inclusion ? List.of("event", "seal") : List.of("first", "second");
        if (!proof.hasExactly("format", "kind", "path", "version", names.get(0), names.get(1))) throw BAD_MEMBER;
        for (String name : names) if (proof.string(name) == null) throw BAD_MEMBER;
        List<Value> items = proof.get("path").isArray() ? proof.get("path").items(65) : null;
        if (items == null || items.size() > 64) throw BAD_MEMBER;
        List<byte[]> path = new ArrayList<>();
        for (Value item : items) {
            byte[] hash = item.string() == null ? null : base64(item.string());
            if (hash == null || hash.length != 32) throw BAD_MEMBER;
            path.add(hash);
        }
        // Rule 2: the events.
        int firstSeal = inclusion ? 1 : 0;
        Event[] events = {new Event(), new Event()};
        for (int i = 0; i < 2; i++) {
            byte[] event = utf8(proof.string(names.get(i)));
            String code = events[i].read(Arrays.copyOf(event, event.length + 1), event.length);
            if (code != null) throw new Stop(code);
            if (i >= firstSeal && !events[i].type.equals("session.seal")) throw BAD_SEAL;
            if (events[i].withheld) line.withheld.set(events[i].seq);
        }
        // Rule 3: the seals.
        Seal[] seals = new Seal[2];
        for (int i = firstSeal; i < 2; i++) {
            seals[i] = Seal.read(events[i].data, events[i].seq);
            if (seals[i] == null || !seals[i].isOf(encode(events[i].session))) throw BAD_SEAL;
            line.seals++;
        }
        // Rule 4: the path.
        Seal first = seals[0];
        Seal second = seals[1];
        line.headSeq = second.size;
        boolean holds = inclusion
            ? events[0].seq <= second.size
                && Merkle.includes(events[0].hash, events[0].seq - 1, second.size, path, second.root)
            : events[0].session.equals(events[1].session)
                && Merkle.isConsistent(first.size, first.root, second.size, second.root, path);
        if (!holds) throw BAD_SEAL;
        // Rule 5: the signatures.
        for (int i = firstSeal; i < 2; i++) seals[i].checkSignatures(trust, line, events[i].seconds, 0, null);
    }

    // ----------------------------------------------------------------------------- the verdict (sections 3, 10 and 11)

    private static final Map<String, String> TEXTS = Map.ofEntries(
        Map.entry("bad-commit", "a commit is not in its form, or says something else than its event"),
        Map.entry("bad-epoch", "epoch is below 1, or falls"),
        Map.entry("bad-file", "a side file is not what the event says, or their number differs"),
        Map.entry("bad-fork", "a start, branch or fork does not stand or come from where it says"),
        Map.entry("bad-hash", "a commit names another event hash than its event has"),
        Map.entry("bad-json", "the bytes are not JSON, or break a rule that all JSON here keeps"),
        Map.entry("bad-member", "a member is missing, unknown, too big or breaks its rule"),
        Map.entry("bad-object", "an object cannot be read, or its content does not have its id"),
        Map.entry("bad-seal", "a seal or proof does not agree with the events"),
        Map.entry("bad-seq", "seq is out of range, or not one more than the event before"),
        Map.entry("bad-session", "session changes without a fork"),
        Map.entry("bad-signature", "a signature is wrong, of another namespace or key, or missing"),
        Map.entry("bad-tree", "a tree is malformed, or a commit is not the one that the events derive"),
        Map.entry("bad-version", "the version is not 1"),
        Map.entry("broken-link", "prev is not the hash of the event before"),
        Map.entry("equivocation", "two lines of a session go apart and neither says so"),
        Map.entry("missing-object", "an object that must be there is not"),
        Map.entry("not-canonical", "JSON, but not in canonical form"),
        Map.entry("rollback", "another event stands where the expected head was"),
        Map.entry("truncated", "the line ends before the expected head, or in the middle of an event"),
        Map.entry("unknown-signer", "a right signature of a key that the allowed signers do not accept"),
        Map.entry("wrong-ref", "the ref is not one of this line, or holds no commit id"));

    /** A string in canonical JSON, or null. */
    static String quote(String text) {
        if (text == null) return "null";
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            int control = "\b\f\n\r\t".indexOf(c);
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (control >= 0) out.append('\\').append("bfnrt".charAt(control));
            else if (c < 0x20) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    private static String array(Stream<String> items) { return items.collect(Collectors.joining(",", "[", "]")); }

    private static String print(Finding one) {
        return "{\"code\":" + quote(one.code) + ",\"id\":" + quote(one.id) + ",\"seq\":"
            + (one.seq == 0 ? "null" : one.seq) + ",\"text\":" + quote(TEXTS.get(one.code)) + "}";
    }

    private static String print(String key, Signer one) {
        return "{\"key\":" + quote(key) + ",\"principals\":" + quote(one.principals)
            + ",\"signatures\":" + one.signatures + "}";
    }

    private static String print(Line line) {
        String hash = line.headHash == null ? null : HEX.formatHex(line.headHash);
        List<String> ranges = new ArrayList<>();
        for (int from = line.withheld.nextSetBit(0), to; from >= 0; from = line.withheld.nextSetBit(to)) {
            to = line.withheld.nextClearBit(from);
            ranges.add("[" + from + "," + (to - 1) + "]");
        }
        return "{\"findings\":" + array(line.findings.stream().map(VerifyChain::print))
            + ",\"head\":{\"commit\":" + quote(line.commit) + ",\"hash\":" + quote(hash) + ",\"seq\":" + line.headSeq
            + "},\"name\":" + quote(line.name) + ",\"seals\":" + line.seals + ",\"side_files\":" + line.sideFiles
            + ",\"signatures\":" + line.signatures + ",\"signed_to\":" + line.signedTo + ",\"signers\":"
            + array(line.signers.entrySet().stream().map(one -> print(one.getKey(), one.getValue())))
            + ",\"withheld\":" + array(ranges.stream()) + "}";
    }

    /** What was not checked. The notes of section 10 that make a verdict incomplete begin with a zero byte here. */
    private static List<String> notes(String input, List<Line> lines, int foreign, Options options) {
        int signatures = lines.stream().mapToInt(line -> line.signatures).sum();
        int kinds = lines.stream().mapToInt(line -> line.uncheckedKinds).sum();
        int withheld = lines.stream().mapToInt(line -> line.withheld.cardinality()).sum();
        int leftOut = lines.stream().mapToInt(line -> line.leftOut).sum();
        boolean known = options.allowedSigners != null;
        boolean ends = lines.stream().anyMatch(line -> line.signerEnds);
        boolean open = known && lines.stream().anyMatch(line -> line.signedTo < line.headSeq);
        String first = switch (input) {
            case "git" -> "events that are not yet in git: the tail of a live journal";
            case "jsonl" -> "commits, trees and refs: an export has none";
            default -> "all other events: a proof shows what it names";
        };
        List<String> notes = new ArrayList<>(List.of(first));
        if (options.expectHead == null) notes.add("whether newer events were cut off: no head was expected");
        if (signatures == 0) notes.add("who wrote the events: nothing is signed");
        if (signatures > 0 && !known) notes.add("\0whose keys signed: no allowed signers were given");
        if (kinds > 0) notes.add("\0signatures of a kind that is not checked here: " + kinds);
        if (ends) notes.add("when it was signed: an accepted key has an end, and the time is the signer's word");
        if (open) notes.add("events after the last accepted signature");
        if (withheld > 0) notes.add("the payloads of withheld events: " + withheld);
        if (leftOut > 0) notes.add("\0commits that a shallow history leaves out: " + leftOut);
        if (foreign > 0) notes.add("refs that are no line of a journal: " + foreign);
        if (lines.stream().anyMatch(Line::isFull)) notes.add("\0what comes after 1000 findings in a line");
        return notes;
    }

    // --------------------------------------------------------------------------------------------- the run (section 2)

    static final class Options {
        String allowedSigners;
        String revokedKeys;
        boolean requireSigned;
        int expectSeq;
        byte[] expectHead;
        String path;
        String name;

        Options(String... args) throws Exit {
            String seq = null;
            String head = null;
            Iterator<String> rest = List.of(args).iterator();
            try {
                while (rest.hasNext()) {
                    String arg = rest.next();
                    switch (arg) {
                        case "--allowed-signers" -> allowedSigners = rest.next();
                        case "--revoked-keys" -> revokedKeys = rest.next();
                        case "--require-signed" -> requireSigned = true;
                        case "--expect-seq" -> seq = rest.next();
                        case "--expect-head" -> head = rest.next();
                        default -> {
                            if (arg.startsWith("-") || name != null) throw new Exit(2, "what is " + arg + "?");
                            if (path == null) path = arg;
                            else name = arg;
                        }
                    }
                }
            } catch (NoSuchElementException e) {
                throw new Exit(2, "an option has no value");
            }
            if (path == null) throw new Exit(2, "usage: java VerifyChain.java [options] PATH [NAME]");
            if (seq == null && head == null) return;
            boolean both = seq != null && head != null;
            if (!both || !seq.matches("[1-9][0-9]{0,7}") || !Event.HASH.matcher(head).matches()) {
                throw new Exit(2, "--expect-seq N and --expect-head HASH go together");
            }
            expectSeq = Integer.parseInt(seq);
            expectHead = HEX.parseHex(head);
        }
    }

    /** Prints the verdict and returns the exit status. */
    static int run(OutputStream out, String... args) throws Exit, IOException {
        Options options = new Options(args);
        Trust trust = new Trust(options.allowedSigners, options.revokedKeys);
        Path path = Path.of(options.path);
        int[] foreign = {0};
        boolean folder = Files.isDirectory(path) && !options.path.isEmpty(); // Java reads "" as the folder it is in
        String input = folder ? "git" : options.path.endsWith(".jsonl") ? "jsonl" : "proof";
        List<Line> lines;
        if (input.equals("git")) {
            lines = checkGit(path, options, trust, foreign);
        } else {
            boolean ours = options.path.endsWith(".jsonl") || options.path.endsWith(".json");
            if (!Files.isRegularFile(path) || !ours) throw new Exit(4, "no repository, export or proof: " + path);
            if (options.name != null) throw new Exit(2, "a file has no lines to name");
            if (input.equals("proof") && options.expectHead != null) throw new Exit(2, "a proof has no expected head");
            if (input.equals("jsonl")) {
                lines = List.of(checkExport(options.path, trust));
                if (lines.get(0).headSeq == 0) throw new Exit(4, "an empty file: " + path);
            } else {
                try (InputStream in = Files.newInputStream(path)) {
                    lines = List.of(checkProof(in.readNBytes(MAX_PROOF + 1), trust));
                }
            }
        }
        for (Line line : lines) {
            if (line.chain == null && input.equals("git")) continue; // a ref that holds no id
            try {
                if (options.expectHead != null) line.expect(options.expectSeq, options.expectHead);
                if (options.requireSigned && line.signedTo == 0) line.find("bad-signature", 0, null);
            } catch (Stop stop) {
                // 1000 findings
            }
        }
        List<String> notes = notes(input, lines, foreign[0], options);
        int status = lines.stream().anyMatch(line -> !line.findings.isEmpty()) ? 1
            : notes.stream().anyMatch(note -> note.startsWith("\0")) ? 3 : 0;
        String verdict = status == 0 ? "ok" : status == 1 ? "broken" : "incomplete";
        out.write(utf8("{\"input\":" + quote(input) + ",\"lines\":" + array(lines.stream().map(VerifyChain::print))
            + ",\"unchecked\":" + array(notes.stream().map(note -> quote(note.replace("\0", ""))))
            + ",\"verdict\":" + quote(verdict) + ",\"version\":1}\n"));
        out.flush();
        return status;
    }

    /** As run, but whatever goes wrong is told on standard error, and is an exit status. */
    static int status(OutputStream out, String... args) {
        try {
            return run(out, args);
        } catch (Exit exit) {
            System.err.println(exit.getMessage());
            return exit.status;
        } catch (IOException | RuntimeException | OutOfMemoryError e) {
            System.err.println("cannot be read: " + e); // whatever it was, it is no verdict
            return 4;
        }
    }

    public static void main(String[] args) {
        System.exit(status(System.out, args));
    }
}
