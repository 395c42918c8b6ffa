package main

import (
	"bytes"
	"compress/zlib"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/adler32"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The first two events of docs/format.md section 14, and their hashes.
const (
	event1 = `{"actor":"host","data":{"agent.name":"helper"},"epoch":1,"prev":null,"salt":"AAECAwQFBgcICQoLDA0ODw","seq":1,` +
		`"session":"demo","ts":"2026-01-02T03:04:05.678Z","type":"session.start","v":1}`
	event2 = `{"actor":"user","data":{"parts":[{"content":"What is on my list?","type":"text"}],"role":"user"},"epoch":1,` +
		`"prev":"bd6532406ce87cd1e8afe0eb7425418fd8232d5ceb1103fda6ccf66adc902f29","salt":"EBESExQVFhcYGRobHB0eHw","seq":2,` +
		`"session":"demo","ts":"2026-01-02T03:04:06.000Z","turn":"t1","type":"message","v":1}`
	hash1 = "bd6532406ce87cd1e8afe0eb7425418fd8232d5ceb1103fda6ccf66adc902f29"
	hash2 = "5215d3a519d13b7e2e11e35ea309b9c4a85836eeee85cb4161dcc023892d4b78"
)

// scan gives the code of a text.
func scan(s *scanner, text []byte) string { return attempt(func() { s.scan(text, len(text)) }) }

// readEvent gives an event, or a code.
func readEvent(s *scanner, text []byte) (e event, code string) {
	code = attempt(func() { e = s.event(text) })
	return e, code
}

func TestJSON(t *testing.T) {
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for text, want := range map[string]string{
		`{"a":1,"b":[true,false,null]}`:       "",
		`"\u001f\b\"\\/` + "\x7f\u2028" + `"`: "",
		"{\"\U00010000\":1,\"\uffff\":1}":     "", // UTF-16 order
		"{\"\uffff\":1,\"\U00010000\":1}":     "not-canonical",
		`{"b":1,"a":1}`:                       "not-canonical",
		`{"b":1,"a":1,"b":2}`:                 "bad-json",
		`{"a":1,"\u0061":2}`:                  "bad-json",
		`"\/"`:                                "not-canonical",
		`"\u001F"`:                            "not-canonical",
		`"\ud83d\ude00"`:                      "not-canonical",
		`"\ud83d"`:                            "bad-json",
		`"\ude00"`:                            "bad-json",
		"\"\xc0\x80\"":                        "bad-json",
		"\ufeff1":                             "bad-json",
		` 1`:                                  "not-canonical",
		`1 x`:                                 "bad-json",
		`[1,]`:                                "bad-json",
		``:                                    "bad-json",
		`-0`:                                  "bad-json",
		`-0.0`:                                "bad-json",
		`-1e-999`:                             "bad-json",
		`1e-999`:                              "not-canonical",
		`1.0`:                                 "not-canonical",
		`01`:                                  "bad-json",
		`9007199254740991`:                    "",
		`9007199254740992`:                    "bad-json",
		`9007199254740991.6`:                  "bad-json",
		`1e999`:                               "bad-json",
		`0.000001`:                            "",
		`1e-7`:                                "",
		`5.684341886080802e-14`:               "",
		deep(64):                              "",
		deep(65):                              "bad-json",
		deep(100000):                          "bad-json",
	} {
		var s scanner
		if got := scan(&s, []byte(text)); got != want {
			t.Errorf("%.60q: %q, not %q", text, got, want)
		}
	}
}

func TestDouble(t *testing.T) {
	zeros := strings.Repeat("0", 1000000)
	for text, want := range map[string]float64{
		"-1." + zeros + "5e-1":     -0.1,
		"0." + zeros + "1e1000001": 1,
		"1" + zeros + "e-1000000":  1,
		"1" + zeros:                math.Inf(1),
		"1e99999999999999999999":   math.Inf(1),
		"1e-99999999999999999999":  0,
		"0e" + zeros + "9":         0,
	} {
		if got := double(text); got != want {
			t.Errorf("%.20s...: %v, not %v", text, got, want)
		}
	}
}

func TestEvent(t *testing.T) {
	var s scanner
	for text, want := range map[string]string{event1: hash1, event2: hash2} {
		e, code := readEvent(&s, []byte(text))
		if code != "" || hex.EncodeToString(e.hash[:]) != want {
			t.Errorf("%s: %q %x", text, code, e.hash)
		}
	}
	change := func(from, to string) string { return strings.Replace(event2, from, to, 1) }
	digest := `"data_sha256":"617ccc2cf7cfcc564a2d37abf31cd08d3d49198a46cbffa65528293b21d5ea7a"`
	withheld := `{"actor":"user",` + digest + event2[strings.Index(event2, `,"epoch"`):]
	withheld = strings.Replace(withheld, `"salt":"EBESExQVFhcYGRobHB0eHw",`, "", 1)
	if e, code := readEvent(&s, []byte(withheld)); code != "" || hex.EncodeToString(e.hash[:]) != hash2 || e.data != nil {
		t.Errorf("withheld: %q %x", code, e.hash)
	}
	for text, want := range map[string]string{
		`[]`:                                                    "bad-json",
		`{}`:                                                    "bad-version",
		change(`"v":1`, `"v":2`):                                "bad-version",
		change(`"v":1`, `"v":1,"w":1`):                          "bad-member",
		change(`"actor":"user",`, ``):                           "bad-member",
		change(`"seq":2`, `"seq":0`):                            "bad-seq",
		change(`"seq":2`, `"seq":100000000`):                    "bad-seq",
		change(`"epoch":1`, `"epoch":0`):                        "bad-epoch",
		change(`03:04:06`, `03:04:60`):                          "bad-member",
		change(`2026-01-02`, `2026-02-29`):                      "bad-member",
		change(`2026-01-02`, `1969-12-31`):                      "bad-member",
		change(`06.000Z`, `06,000Z`):                            "bad-member",
		change(`HB0eHw`, `HB0eHx`):                              "bad-member",
		change(`"type":"message"`, `"type":"a..b"`):             "bad-member",
		change(`"prev":"`+hash1+`"`, `"prev":null`):             "broken-link",
		change(`"message"`, `"session.start"`):                  "bad-fork",
		change(`"parts"`, `"$gj:file"`):                         "bad-member",
		strings.Replace(withheld, "message", "session.fork", 1): "bad-fork",
		strings.Replace(withheld, "message", "session.seal", 1): "bad-seal",
		strings.Repeat(" ", maxEvent+1):                         "bad-member",
	} {
		if _, code := readEvent(&s, []byte(text)); code != want {
			t.Errorf("%.300s: %q, not %q", text, code, want)
		}
	}
}

func TestTags(t *testing.T) {
	for text, good := range map[string]bool{
		`{"$gj:file":3}`:              true,
		`{"$gj:file":0}`:              false,
		`{"$gj:file":"3"}`:            false,
		`{"$gj:file":1,"x":1}`:        false,
		`{"$gj:ref":[3,"/a/b"]}`:      true,
		`{"$gj:ref":[3,""]}`:          true,
		`{"$gj:ref":[3,"a"]}`:         false,
		`{"$gj:ref":[3,"/",1]}`:       false,
		`{"$gj:ref":[3]}`:             false,
		`{"$gj:ref":[[3],"/"]}`:       false,
		`{"$gj:ref":"[3,"}`:           false,
		`{"$gj:json":"NaN"}`:          true,
		`{"$gj:b64":1}`:               false,
		`[{"a":[{"$gj:other":"x"}]}]`: false,
	} {
		var s scanner
		if code := scan(&s, []byte(text)); code != "" || s.badTag == good {
			t.Errorf("%s: %q, bad tag: %v", text, code, s.badTag)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"a b/c": "a%20b%2Fc", ".a": "%2Ea", "-a": "%2Da", "a..b": "a%2E.b", "a.": "a%2E", "a.lock": "a%2Elock", "é": "%C3%A9",
	} {
		if got := encode(name); got != want || !isPart(got) {
			t.Errorf("%q: %q, not %q", name, got, want)
		}
	}
	for _, part := range []string{"", "a b", "%61", "%2f", "%C3", "%", ".a", "a.lock", "%7F", strings.Repeat("a", 201)} {
		if isPart(part) {
			t.Errorf("%q is a part", part)
		}
	}
}

// tree is RFC 9162 section 2.1.1 as it stands there.
func tree(leaves [][]byte) [32]byte {
	if len(leaves) == 1 {
		return leafHash(leaves[0])
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	return nodeHash(tree(leaves[:k]), tree(leaves[k:]))
}

func TestMerkle(t *testing.T) {
	var m merkle
	var leaves [][]byte
	for n := 1; n < 70; n++ {
		leaf := sha256.Sum256([]byte{byte(n)})
		leaves = append(leaves, leaf[:])
		m.add(leaf[:])
		if m.root() != tree(leaves) {
			t.Errorf("root of %d leaves", n)
		}
	}
}

// inclusionPath is RFC 9162 section 2.1.3.1.
func inclusionPath(m int, leaves [][]byte) [][32]byte {
	if len(leaves) == 1 {
		return nil
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	if m < k {
		return append(inclusionPath(m, leaves[:k]), tree(leaves[k:]))
	}
	return append(inclusionPath(m-k, leaves[k:]), tree(leaves[:k]))
}

// consistencyPath is RFC 9162 section 2.1.4.1.
func consistencyPath(m int, leaves [][]byte, whole bool) [][32]byte {
	if m == len(leaves) {
		if whole {
			return nil
		}
		return [][32]byte{tree(leaves)}
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	if m <= k {
		return append(consistencyPath(m, leaves[:k], whole), tree(leaves[k:]))
	}
	return append(consistencyPath(m-k, leaves[k:], false), tree(leaves[:k]))
}

func TestPaths(t *testing.T) {
	var leaves [][]byte
	for n := 1; n < 20; n++ {
		leaf := sha256.Sum256([]byte{byte(n)})
		leaves = append(leaves, leaf[:])
		second := &sealed{size: int64(n), root: tree(leaves)}
		for m := 1; m <= n; m++ {
			path := inclusionPath(m-1, leaves)
			var hash [32]byte
			copy(hash[:], leaves[m-1])
			if !includes(path, int64(m), second, hash) || includes(append(path, hash), int64(m), second, hash) ||
				n > 1 && includes(path, int64(m%n+1), second, hash) {
				t.Errorf("inclusion of %d in %d", m, n)
			}
			first := &sealed{size: int64(m), root: tree(leaves[:m])}
			path = consistencyPath(m, leaves, true)
			if !consistent(path, first, second) || consistent(append(path, hash), first, second) ||
				consistent(path, &sealed{size: int64(m), root: hash}, second) {
				t.Errorf("consistency of %d and %d", m, n)
			}
		}
	}
}

// testSignature makes an Ed25519 signature over a message in the namespace "git".
func testSignature(message string) (armour string, key []byte) {
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	key = appendWire(appendWire(nil, []byte("ssh-ed25519")), private.Public().(ed25519.PublicKey))
	hash := sha256.Sum256([]byte(message))
	signed := []byte("SSHSIG")
	blob := appendWire([]byte("SSHSIG\x00\x00\x00\x01"), key)
	for _, part := range [][]byte{[]byte("git"), nil, []byte("sha256")} {
		signed, blob = appendWire(signed, part), appendWire(blob, part)
	}
	signed = appendWire(signed, hash[:])
	blob = appendWire(blob, appendWire(appendWire(nil, []byte("ssh-ed25519")), ed25519.Sign(private, signed)))
	return "-----BEGIN SSH SIGNATURE-----\n" + base64.StdEncoding.EncodeToString(blob) + "\n-----END SSH SIGNATURE-----\n", key
}

func TestSSHSIG(t *testing.T) {
	armour, key := testSignature("message")
	name, other := fingerprint(key), "SHA256:x"
	for _, one := range []struct {
		armour, namespace, message string
		key                        *string
		want                       bool
	}{
		{armour, "git", "message", nil, true},
		{armour, "git", "message", &name, true},
		{armour, "git", "message", &other, false},
		{armour, "git", "message", new(string), false},
		{armour, "gitjournal", "message", nil, false},
		{armour, "git", "another", nil, false},
		{strings.TrimSuffix(armour, "\n"), "git", "message", nil, true},
		{armour + "\n", "git", "message", nil, false},
		{strings.Replace(armour, "\n", "\r\n", 1), "git", "message", nil, false},
		{"", "git", "message", nil, false},
	} {
		checked := false
		code := attempt(func() { _, checked = checkSSHSIG(one.armour, one.namespace, []byte(one.message), one.key) })
		if checked != one.want || (code == "") != one.want {
			t.Errorf("%+v: %v %s", one, checked, code)
		}
	}
}

func TestTrust(t *testing.T) {
	_, key := testSignature("")
	text := "ssh-ed25519 " + base64.StdEncoding.EncodeToString(key)
	for options, accepts := range map[string]bool{
		"":                                    true,
		`namespaces="git" `:                   true,
		`NameSpaces="x,g*t" `:                 true,
		`namespaces="gitjournal" `:            false,
		`namespaces="*,!git" `:                false,
		`namespaces="*?**t**" `:               true,
		`namespaces="*?i?t" `:                 false,
		`valid-after="20260101" `:             true,
		`valid-after="20260102030406Z" `:      false,
		`valid-before="20260102030405" `:      false,
		`cert-authority `:                     false,
		`other="a b",valid-after="19700101" `: false,
	} {
		trusted := trust{lines: []*allowed{allowedLine(1, "me "+options+text+" comment")}}
		if got := trusted.accepts(key, "git", 1767323045) != nil; got != accepts {
			t.Errorf("%q accepts: %v", options, got)
		}
	}
	for _, line := range []string{
		"me", "me ssh-ed25519", "me ssh-rsa " + text[12:], `me namespaces ` + text, `me valid-after="20260230" ` + text,
		`me valid-after="2026" ` + text, `me namespaces="a",namespaces="b" ` + text, `me a,` + text, `me ,` + text, `me a, ` + text,
	} {
		if attempt(func() { allowedLine(1, line) }) == "" {
			t.Errorf("%q can be read", line)
		}
	}
}

func deflate(text string) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	w.Write([]byte(text))
	w.Close()
	return out.Bytes()
}

// stored gives text as zlib does for what it cannot make smaller: one block.
func stored(text string) []byte {
	raw := binary.LittleEndian.AppendUint16([]byte("\x78\x01\x01"), uint16(len(text)))
	raw = append(binary.LittleEndian.AppendUint16(raw, ^uint16(len(text))), text...)
	return binary.BigEndian.AppendUint32(raw, adler32.Checksum([]byte(text)))
}

// TestUnzip: what is cut, longer than asked for, or looks back in another way is not taken.
func TestUnzip(t *testing.T) {
	u := newUnpacker(&store{})
	unzip := func(text []byte, most int) (data string, used int, code string) {
		code = attempt(func() {
			raw, n := u.unzip(text, most)
			data, used = string(raw), n
		})
		return data, used, code
	}
	check := func(text string, raw []byte) {
		if data, used, code := unzip(append(raw, 1, 2, 3), len(text)); data != text || used != len(raw) || code != "" {
			t.Error(len(text), used, code)
		}
		for _, size := range []int{0, 1, 2, len(raw) - 5, len(raw) - 1} {
			if _, _, code := unzip(raw[:size], len(text)); code == "" {
				t.Error(len(text), "cut to", size)
			}
		}
		if _, _, code := unzip(raw, len(text)-1); code == "" && text != "" {
			t.Error(len(text), "more than asked for")
		}
		if _, _, code := unzip(append([]byte{0x68, 0x81}, raw[2:]...), len(text)); code == "" {
			t.Error(len(text), "a smaller window")
		}
		raw[len(raw)-1] ^= 1
		if _, _, code := unzip(raw, len(text)); code == "" {
			t.Error(len(text), "a wrong sum")
		}
	}
	for _, text := range []string{"", "x", strings.Repeat("another ", 1000), event1 + event2} {
		check(text, deflate(text))
		check(text, stored(text))
	}
}

// writeRepository writes the line of event1 and event2 as loose objects and gives its folder.
func writeRepository(t testing.TB) string {
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		command := exec.Command("git", append([]string{"--git-dir=" + dir}, args...)...)
		command.Stdin = strings.NewReader(stdin)
		out, err := command.Output()
		if err != nil {
			t.Fatal(args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "--quiet", "--bare", dir)
	var d deriver
	for _, text := range []string{event1, event2} {
		e := new(scanner).event([]byte(text))
		blob := toID(git(text, "hash-object", "-w", "--stdin"))
		for _, one := range d.push(&e, hex.AppendEncode(nil, e.hash[:]), &place{blob: blob}) {
			if git(string(one.expected), "hash-object", "-w", "-t", one.kind, "--stdin") != one.id.String() {
				t.Fatal("another id than git's")
			}
		}
	}
	git("", "update-ref", "refs/heads/demo/main", d.parent.String())
	return dir
}

// TestPacks finds all objects without git: loose, whole in a pack, and as deltas of both kinds.
func TestPacks(t *testing.T) {
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		command := exec.Command("git", append([]string{"--git-dir=" + dir}, args...)...)
		command.Stdin = strings.NewReader(stdin)
		out, err := command.Output()
		if err != nil {
			t.Fatal(args, err)
		}
		return string(out)
	}
	git("", "init", "--quiet", "--bare", dir)
	chance := rand.New(rand.NewSource(1))
	text := make([]byte, 60000)
	chance.Read(text)
	var paths strings.Builder
	var contents [][]byte
	for size := 0; size <= len(text); size += 1 + size/3 {
		for from := 0; from <= 1000; from += 500 {
			content := append([]byte(nil), text[from:max(size, from)]...)
			if len(content) > 2000 {
				copy(content[1200:], "another beginning")
			}
			contents = append(contents, content)
			path := filepath.Join(dir, fmt.Sprint("file-", len(contents)))
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			paths.WriteString(path + "\n")
		}
	}
	ids := git(paths.String(), "hash-object", "-w", "--stdin-paths")
	check := func(form string, deltas bool) {
		u := newUnpacker(openStore(dir))
		for n, name := range strings.Fields(ids) {
			id := toID(name)
			if data := u.read("blob", id); data == nil || !bytes.Equal(data, contents[n]) {
				t.Error(form, name, len(contents[n]), len(data))
			}
			if u.read("tree", id) != nil {
				t.Error(form, name, "is no tree")
			}
		}
		bases := 0
		for _, b := range u.bases {
			bases += len(b.data)
		}
		if bases > 0 != deltas {
			t.Error(form, "bases", bases)
		}
		packs, _ := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
		for _, one := range packs {
			os.Remove(one)
		}
	}
	check("loose", false)
	for _, option := range []string{"--window=0", "--delta-base-offset", "--no-reuse-delta"} {
		git(ids, "pack-objects", "-q", "--depth=5", option, filepath.Join(dir, "objects", "pack", "pack"))
		check(option, option != "--window=0")
	}
}

func TestRepository(t *testing.T) {
	dir := writeRepository(t)
	const head = `"head":{"commit":"2ebc0fc83308bd8cc4d9f15259ea48888b6ac935","hash":"` + hash2 + `","seq":2}`
	text, status, problem := verify([]string{dir, "demo"})
	if problem != "" || status != 0 || !strings.Contains(text, `"findings":[],`+head) {
		t.Error(text, status, problem)
	}
	// A loose blob that is shorter than it says must not be waited for.
	blob := "0fea0636be606005ed04cab9b696d0535623715e"
	path := filepath.Join(dir, "objects", blob[:2], blob[2:])
	os.Remove(path)
	if err := os.WriteFile(path, deflate("blob 1120\x00short"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, status, problem = verify([]string{dir})
	want := fmt.Sprintf(`"findings":[{"code":"bad-object","id":"%s","seq":2,"text":"%s"}]`, blob, texts["bad-object"])
	if problem != "" || status != 1 || !strings.Contains(text, want) {
		t.Error(text, status, problem)
	}
}

func TestExport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demo.jsonl")
	for content, want := range map[string]string{
		event1 + "\n" + event2 + "\n": `"findings":[],"head":{"commit":null,"hash":"` + hash2 + `","seq":2}`,
		event1 + "\n" + event2:        `"code":"truncated","id":"","seq":2`,
		event2 + "\n":                 `"code":"broken-link","id":"","seq":1`,
		"\n":                          `"code":"bad-json","id":"","seq":1`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		text, _, problem := verify([]string{path})
		if problem != "" || !strings.Contains(text, want) {
			t.Error(text, problem)
		}
	}
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	for status, cases := range map[int][][]string{
		2: {{}, {"a", "b", "c"}, {"-x"}, {"--expect-seq", "1", "x.jsonl"}, {"--expect-seq", "01", "--expect-head", hash1, "x.jsonl"},
			{"--allowed-signers", filepath.Join(dir, "none"), "x.jsonl"}, {"--allowed-signers"}},
		4: {{filepath.Join(dir, "none")}, {dir}},
	} {
		for _, args := range cases {
			if text, got, problem := verify(args); got != status || problem == "" || text != "" {
				t.Errorf("%q: %d %s", args, got, problem)
			}
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{event1, event2, `{"$gj:ref":[1,"/a"]}`, `[1.5,-0,"\ud83d\ude00"]`, "{\"\U00010000\":1,\"\uffff\":1}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s scanner
		code := scan(&s, raw)
		if again := scan(&s, raw); again != code {
			t.Errorf("%q, then %q", code, again)
		}
		// What a canonical text holds is canonical by itself.
		if code = scan(&s, raw); code == "" {
			for _, part := range append(members{}, s.parts...) {
				var inner scanner
				if scan(&inner, part.value) != "" {
					t.Errorf("%q in %q", part.value, raw)
				}
			}
		}
		if e, eventCode := readEvent(&s, raw); code != "" && eventCode == "" {
			t.Errorf("an event that is %s: %+v", code, e)
		}
	})
}

func FuzzSSHSIG(f *testing.F) {
	armour, key := testSignature("message")
	f.Add(armour)
	f.Fuzz(func(t *testing.T, text string) {
		attempt(func() {
			if blob, checked := checkSSHSIG(text, "git", []byte("message"), nil); checked && !bytes.Equal(blob, key) {
				t.Errorf("a forged signature: %q", text)
			}
		})
	})
}

func FuzzProof(f *testing.F) {
	quoted := quote(event1)
	f.Add([]byte(`{"event":` + quoted + `,"format":"gitjournal-proof","kind":"inclusion","path":[],"seal":` + quoted + `,"version":1}` + "\n"))
	f.Add([]byte(`{"first":` + quoted + `,"format":"gitjournal-proof","kind":"consistency","path":["AA=="],"second":` + quoted + `,"version":1}` + "\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := newReport("", "")
		if code := attempt(func() { readProof(raw, r) }); code == "" && r.headSeq == 0 {
			t.Errorf("a proof without a seal: %q", raw)
		}
	})
}
