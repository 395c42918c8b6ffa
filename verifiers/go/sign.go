package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// signed is what a signature stands under; covers is the seq up to which it speaks.
type signed struct {
	namespace    string
	message      []byte
	time, covers int64
}

// signature checks a signature (section 9) and counts it, or notes what is wrong with it. key is the fingerprint that
// the key must have; nil: any.
func (r *report) signature(t *trust, s signed, armour string, key *string, seq int64, id string) {
	var blob []byte
	var checked bool
	if attempt(func() { blob, checked = checkSSHSIG(armour, s.namespace, s.message, key) }) != "" {
		r.add("bad-signature", seq, id)
		return
	}
	if !checked {
		r.notChecked++
		return
	}
	r.signatures++
	name := fingerprint(blob)
	if r.signers[name] == nil {
		r.signers[name] = &signer{}
	}
	one := r.signers[name]
	one.signatures++
	line := t.accepts(blob, s.namespace, s.time)
	if line == nil {
		if t.given {
			r.add("unknown-signer", seq, id)
		}
		return
	}
	if one.accepted == nil || line.number < one.accepted.number {
		one.accepted = line
	}
	r.keyEnds = r.keyEnds || line.before < math.MaxInt64
	r.signedTo = max(r.signedTo, s.covers)
}

func fingerprint(key []byte) string {
	hash := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(hash[:])
}

// unbase64 reads standard base64 with padding in the one spelling that encoding gives. (Go's decoder alone passes over
// newlines.)
func unbase64(text string) (raw []byte, good bool) {
	raw, err := base64.StdEncoding.DecodeString(text)
	return raw, err == nil && base64.StdEncoding.EncodeToString(raw) == text
}

// wrong is what breaks a rule in a signature or a file of keys.
const wrong = "cannot be read"

// wire is read as strings of RFC 4251, and must not be cut.
type wire []byte

func (w *wire) next() []byte {
	must(len(*w) >= 4, wrong)
	size, rest := binary.BigEndian.Uint32(*w), (*w)[4:]
	must(uint64(size) <= uint64(len(rest)), wrong)
	*w = rest[size:]
	return rest[:size:size]
}

// mpint reads a positive number in its shortest form.
func (w *wire) mpint() *big.Int {
	text := w.next()
	must(len(text) > 0 && text[0] < 0x80 && (text[0] > 0 || len(text) > 1 && text[1] >= 0x80), wrong)
	return new(big.Int).SetBytes(text)
}

// end: nothing is left over.
func (w *wire) end() { must(len(*w) == 0, wrong) }

func appendWire(out []byte, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(out, uint32(len(text))), text...)
}

func digest(hash crypto.Hash, text []byte) []byte {
	h := hash.New()
	h.Write(text)
	return h.Sum(nil)
}

var (
	hashes    = map[string]crypto.Hash{"sha256": crypto.SHA256, "sha512": crypto.SHA512}
	rsaHashes = map[string]crypto.Hash{"rsa-sha2-256": crypto.SHA256, "rsa-sha2-512": crypto.SHA512}
	curves    = map[string]elliptic.Curve{"nistp256": elliptic.P256(), "nistp384": elliptic.P384()}
	curveHash = map[string]crypto.Hash{"nistp256": crypto.SHA256, "nistp384": crypto.SHA384}
)

// checkSSHSIG checks an armoured signature and gives the blob of its key; checked is false for a kind of key that is not
// known here.
func checkSSHSIG(armour, namespace string, message []byte, wantedKey *string) (key wire, checked bool) {
	body, begins := strings.CutPrefix(strings.TrimSuffix(armour, "\n"), "-----BEGIN SSH SIGNATURE-----\n")
	body, ends := strings.CutSuffix("\n"+body, "\n-----END SSH SIGNATURE-----")
	blob, good := unbase64(strings.ReplaceAll(body, "\n", ""))
	content, isSSHSIG := bytes.CutPrefix(blob, []byte("SSHSIG\x00\x00\x00\x01"))
	must(begins && ends && good && isSSHSIG, wrong)
	w := wire(content)
	key, space, reserved, hashing, signature := w.next(), w.next(), w.next(), w.next(), wire(w.next())
	w.end()
	hash, known := hashes[string(hashing)]
	must(known && len(reserved) == 0, wrong) // OpenSSH signs and checks an empty field, whatever stands there
	must(string(space) == namespace && (wantedKey == nil || fingerprint(key) == *wantedKey), wrong)
	text := []byte("SSHSIG")
	for _, part := range [][]byte{space, reserved, hashing, digest(hash, message)} {
		text = appendWire(text, part)
	}
	rest := key
	kind := string(rest.next())
	check := map[string]func(text []byte, algorithm string, key, signature *wire) bool{
		"ssh-ed25519": checkEd25519, "ssh-rsa": checkRSA,
		"ecdsa-sha2-nistp256": checkECDSA, "ecdsa-sha2-nistp384": checkECDSA,
	}[kind]
	if check != nil {
		algorithm := string(signature.next())
		must(algorithm == kind || kind == "ssh-rsa", wrong)
		must(check(text, algorithm, &rest, &signature), wrong)
		rest.end()
		signature.end()
	}
	return key, check != nil
}

// Each check reads the rest of the key, and of the signature behind the algorithm.

func checkEd25519(text []byte, _ string, key, signature *wire) bool {
	point, value := key.next(), signature.next()
	must(len(point) == ed25519.PublicKeySize, wrong)
	return len(value) == ed25519.SignatureSize && ed25519.Verify(point, text, value)
}

func checkECDSA(text []byte, algorithm string, key, signature *wire) bool {
	name, point, value := string(key.next()), key.next(), wire(signature.next())
	r, s := value.mpint(), value.mpint()
	value.end()
	must("ecdsa-sha2-"+name == algorithm, wrong)
	x, y := elliptic.Unmarshal(curves[name], point)
	must(x != nil, wrong) // it is compressed, or not on the curve
	return ecdsa.Verify(&ecdsa.PublicKey{Curve: curves[name], X: x, Y: y}, digest(curveHash[name], text), r, s)
}

func checkRSA(text []byte, algorithm string, key, signature *wire) bool {
	e, n, value := key.mpint(), key.mpint(), signature.next()
	hash, known := rsaHashes[algorithm]
	must(known && e.Bit(0) == 1 && e.BitLen() <= 31 && e.Int64() >= 3, wrong)
	must(n.Bit(0) == 1 && n.BitLen() >= 2048 && n.BitLen() <= 8192, wrong)
	return rsa.VerifyPKCS1v15(&rsa.PublicKey{N: n, E: int(e.Int64())}, hash, digest(hash, text), value) == nil
}

// trust is what the files of --allowed-signers and --revoked-keys say.
type trust struct {
	given   bool
	lines   []*allowed
	revoked map[string]bool
}

// allowed is a line of the allowed signers. It accepts nothing if it has an option that is not known here.
type allowed struct {
	number          int
	principals, key string
	unfit           bool
	namespaces      []string        // patterns; nil: any
	after, before   int64           // seconds
	seen            map[string]bool // options
}

// accepts gives the first line that accepts a signature, or nil.
func (t *trust) accepts(key []byte, namespace string, time int64) *allowed {
	for _, line := range t.lines {
		if line.key == string(key) && !line.unfit && !t.revoked[line.key] && line.allows(namespace) &&
			line.after <= time && time < line.before {
			return line
		}
	}
	return nil
}

// allows: of the patterns one must match, and none of those behind a "!".
func (a *allowed) allows(namespace string) bool {
	found := a.namespaces == nil
	for _, pattern := range a.namespaces {
		refused, isRefused := strings.CutPrefix(pattern, "!")
		if isRefused && matches(refused, namespace) {
			return false
		}
		found = found || !isRefused && matches(pattern, namespace)
	}
	return found
}

// matches knows "*" and "?".
func matches(pattern, text string) bool {
	form := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
	found, err := regexp.MatchString(`(?s)\A`+form+`\z`, text)
	return err == nil && found // no namespace is as long as a pattern that is too long for regexp
}

// readTrust reads both files; an empty path is a file that was not given.
func readTrust(signers, revoked string) *trust {
	t := &trust{given: signers != "", revoked: map[string]bool{}}
	keyLines(signers, func(number int, line string) { t.lines = append(t.lines, allowedLine(number, line)) })
	keyLines(revoked, func(_ int, line string) { t.revoked[readKey(line)] = true })
	return t
}

// keyLines gives the lines of a file of keys that mean something, by number.
func keyLines(path string, each func(number int, line string)) {
	if path == "" {
		return
	}
	raw, err := os.ReadFile(path)
	sure(err)
	must(utf8.Valid(raw), "a file of keys that is not UTF-8")
	for i, line := range strings.Split(string(raw), "\n") {
		line = strings.Trim(strings.TrimSuffix(line, "\r"), " \t")
		if line != "" && line[0] != '#' {
			problem := attempt(func() { each(i+1, line) })
			must(problem == "", broken(fmt.Sprintf("%s: line %d %s", path, i+1, problem)))
		}
	}
}

var (
	blanks       = regexp.MustCompile(`[ \t]+`)
	optionsField = regexp.MustCompile(`^((?:"[^"]*"|[^ \t"])+)[ \t]+(.*)$`)
	option       = regexp.MustCompile(`^([^ \t,="]+)(="([^"]*)")?(,|$)`)
)

// readKey reads "keytype base64 [comment]". The type must be the one that the key itself names.
func readKey(text string) (key string) {
	fields := blanks.Split(text, 3)
	must(len(fields) >= 2, wrong)
	blob, good := unbase64(fields[1])
	rest := wire(blob)
	must(good && string(rest.next()) == fields[0], wrong)
	return string(blob)
}

// allowedLine reads a line of allowed signers.
func allowedLine(number int, line string) *allowed {
	a := &allowed{number: number, after: math.MinInt64, before: math.MaxInt64, seen: map[string]bool{}}
	fields := blanks.Split(line, 2)
	must(len(fields) == 2, wrong)
	a.principals = fields[0]
	if attempt(func() { a.key = readKey(fields[1]) }) == "" {
		return a
	}
	cut := optionsField.FindStringSubmatch(fields[1])
	must(cut != nil, wrong)
	a.key = readKey(cut[2])
	for rest, comma := cut[1], ","; comma != ""; {
		one := option.FindStringSubmatch(rest)
		must(one != nil, wrong)
		a.option(strings.ToLower(one[1]), one[3], one[2] != "")
		rest, comma = rest[len(one[0]):], one[4]
	}
	return a
}

// option takes one option over.
func (a *allowed) option(name, value string, hasValue bool) {
	again := a.seen[name]
	a.seen[name] = true
	switch name {
	case "namespaces":
		a.namespaces = strings.Split(value, ",")
	case "valid-after":
		a.after = readMoment(value)
	case "valid-before":
		a.before = readMoment(value)
	default:
		a.unfit = true
		return
	}
	must(hasValue && !again, wrong)
}

// readMoment reads YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, all in UTC.
func readMoment(text string) int64 {
	stamp := strings.TrimSuffix(text, "Z")
	must(len(stamp) == 8 || len(stamp) == 12 || len(stamp) == 14, wrong)
	stamp += "00000000000000"[len(stamp):]
	t, err := time.Parse("20060102150405", stamp)
	must(err == nil && t.Year() >= 1970 && t.Format("20060102150405") == stamp, wrong)
	return t.Unix()
}
