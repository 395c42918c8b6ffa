package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// sealed is what a session.seal says that keeps the rules 1, 3 and 4 of section 9.
type sealed struct {
	size, time int64
	root       [32]byte
	session    string
	branch     string // encoded
	checkpoint []byte
	signatures [][2]string // fingerprint, armour
}

// readSeal reads a seal at a place; false if it breaks one of these rules. That the root is that of the events, and the
// branch that of the line, is left to the caller.
func readSeal(e *event, seq int64) (s sealed, good bool) {
	members := split(e.data)
	size, whole := integer(get(members, "size"))
	root, isRoot := textIf(get(members, "root"), isHash)
	checkpoint, isString := textIf(get(members, "checkpoint"), anyText)
	list := get(members, "signatures")
	if len(members) != 4 || !whole || size == 0 || size != seq-1 || !isRoot || !isString || len(list) == 0 || list[0] != '[' {
		return s, false
	}
	s = sealed{size: size, time: e.time, session: string(e.session), checkpoint: checkpoint}
	hex.Decode(s.root[:], root)
	first, _, _ := strings.Cut(string(checkpoint), "\n")
	origin := "gitjournal/" + encode(s.session) + "/"
	s.branch = strings.TrimPrefix(first, origin)
	text := fmt.Sprintf("%s%s\n%d\n%s\n", origin, s.branch, size, base64.StdEncoding.EncodeToString(s.root[:]))
	if text != string(checkpoint) || !isPart(s.branch) {
		return s, false
	}
	for _, one := range split(list) {
		pair := split(one.value)
		key, isKey := textIf(get(pair, "key"), anyText)
		armour, isArmour := textIf(get(pair, "sshsig"), anyText)
		if len(pair) != 2 || !isKey || !isArmour {
			return s, false
		}
		s.signatures = append(s.signatures, [2]string{string(key), string(armour)})
	}
	return s, true
}

// check checks the signatures of a seal.
func (s *sealed) check(r *report, t *trust, seq int64, id string) {
	for i := range s.signatures {
		pair := &s.signatures[i]
		r.signature(t, signed{"gitjournal", s.checkpoint, s.time, s.size}, pair[1], &pair[0], seq, id)
	}
}

// signed is what a signature stands under; covers is the seq up to which it speaks.
type signed struct {
	namespace    string
	message      []byte
	time, covers int64
}

// signature checks a signature (section 9) and counts it, or notes what is wrong with it. key is the fingerprint that
// the key must have; nil: any.
func (r *report) signature(t *trust, s signed, armour string, key *string, seq int64, id string) {
	blob, outcome := checkSSHSIG(armour, s.namespace, s.message, key)
	if outcome == wrong {
		r.add("bad-signature", seq, id)
		return
	}
	if outcome == unchecked {
		r.notChecked++
		return
	}
	r.signatures++
	name := fingerprint(blob)
	if r.signers[name] == nil {
		r.signers[name] = &signer{}
	}
	r.signers[name].signatures++
	line := t.accepts(blob, s.namespace, s.time)
	if line == nil {
		if t.given {
			r.add("unknown-signer", seq, id)
		}
		return
	}
	if before := r.signers[name].accepted; before == nil || line.number < before.number {
		r.signers[name].accepted = line
	}
	r.keyEnds = r.keyEnds || line.before < math.MaxInt64
	if s.covers > r.signedTo {
		r.signedTo = s.covers
	}
}

func fingerprint(key []byte) string {
	hash := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(hash[:])
}

// unbase64 reads standard base64 with padding in the one spelling that encoding gives. (Go's decoder alone passes over
// newlines.)
func unbase64(text string) ([]byte, bool) {
	raw, err := base64.StdEncoding.DecodeString(text)
	return raw, err == nil && base64.StdEncoding.EncodeToString(raw) == text
}

// wire reads strings of RFC 4251; bad is set at the first one that is cut.
type wire struct {
	rest []byte
	bad  bool
}

func (w *wire) next() []byte {
	if len(w.rest) < 4 || uint64(binary.BigEndian.Uint32(w.rest)) > uint64(len(w.rest)-4) {
		w.bad, w.rest = true, nil
		return nil
	}
	end := 4 + int(binary.BigEndian.Uint32(w.rest))
	text := w.rest[4:end]
	w.rest = w.rest[end:]
	return text
}

// mpint reads a positive number in its shortest form.
func (w *wire) mpint() *big.Int {
	text := w.next()
	if len(text) == 0 || text[0] >= 0x80 || text[0] == 0 && (len(text) == 1 || text[1] < 0x80) {
		w.bad = true
	}
	return new(big.Int).SetBytes(text)
}

// end tells whether all was right, and nothing is left over.
func (w *wire) end() bool { return !w.bad && len(w.rest) == 0 }

func appendWire(out []byte, text []byte) []byte {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(text)))
	return append(append(out, size[:]...), text...)
}

const (
	wrong = iota
	unchecked
	right
)

// checkSSHSIG checks an armoured signature and gives the blob of its key.
func checkSSHSIG(armour, namespace string, message []byte, wantedKey *string) (key []byte, outcome int) {
	lines := strings.Split(strings.TrimSuffix(armour, "\n"), "\n")
	last := len(lines) - 1
	if last < 1 || lines[0] != "-----BEGIN SSH SIGNATURE-----" || lines[last] != "-----END SSH SIGNATURE-----" {
		return nil, wrong
	}
	blob, good := unbase64(strings.Join(lines[1:last], ""))
	if !good || !bytes.HasPrefix(blob, []byte("SSHSIG\x00\x00\x00\x01")) {
		return nil, wrong
	}
	w := wire{rest: blob[10:]}
	key, space, reserved, hashing, signature := w.next(), w.next(), w.next(), w.next(), w.next()
	var hash []byte
	switch string(hashing) {
	case "sha256":
		sum := sha256.Sum256(message)
		hash = sum[:]
	case "sha512":
		sum := sha512.Sum512(message)
		hash = sum[:]
	}
	// OpenSSH signs and checks an empty reserved field, whatever stands there.
	if !w.end() || len(reserved) > 0 || hash == nil || string(space) != namespace || wantedKey != nil && fingerprint(key) != *wantedKey {
		return nil, wrong
	}
	text := []byte("SSHSIG")
	for _, part := range [][]byte{space, reserved, hashing, hash} {
		text = appendWire(text, part)
	}
	k, s := wire{rest: key}, wire{rest: signature}
	kind := string(k.next())
	if k.bad {
		return nil, wrong
	}
	known, good := false, false
	switch kind {
	case "ssh-ed25519":
		known, good = true, checkEd25519(text, &k, &s)
	case "ecdsa-sha2-nistp256":
		sum := sha256.Sum256(text)
		known, good = true, checkECDSA(sum[:], kind, elliptic.P256(), &k, &s)
	case "ecdsa-sha2-nistp384":
		sum := sha512.Sum384(text)
		known, good = true, checkECDSA(sum[:], kind, elliptic.P384(), &k, &s)
	case "ssh-rsa":
		known, good = true, checkRSA(text, &k, &s)
	}
	if !known {
		return key, unchecked
	}
	if !good {
		return nil, wrong
	}
	return key, right
}

// Each check gets the rest of the key and the whole signature: the algorithm and its bytes.

func checkEd25519(text []byte, key, signature *wire) bool {
	point, algorithm, value := key.next(), signature.next(), signature.next()
	return key.end() && signature.end() && string(algorithm) == "ssh-ed25519" &&
		len(point) == ed25519.PublicKeySize && len(value) == ed25519.SignatureSize && ed25519.Verify(point, text, value)
}

func checkECDSA(hash []byte, kind string, curve elliptic.Curve, key, signature *wire) bool {
	name, point, algorithm, value := key.next(), key.next(), signature.next(), wire{rest: signature.next()}
	r, s := value.mpint(), value.mpint()
	if !key.end() || !signature.end() || !value.end() || string(algorithm) != kind || "ecdsa-sha2-"+string(name) != kind {
		return false
	}
	x, y := elliptic.Unmarshal(curve, point) // nil if it is compressed, or not on the curve
	return x != nil && ecdsa.Verify(&ecdsa.PublicKey{Curve: curve, X: x, Y: y}, hash, r, s)
}

func checkRSA(text []byte, key, signature *wire) bool {
	e, n := key.mpint(), key.mpint()
	algorithm, value := signature.next(), signature.next()
	odd := e.Bit(0) == 1 && n.Bit(0) == 1
	if !key.end() || !signature.end() || !odd || e.BitLen() > 31 || e.Int64() < 3 || n.BitLen() < 2048 || n.BitLen() > 8192 {
		return false
	}
	public := rsa.PublicKey{N: n, E: int(e.Int64())}
	switch string(algorithm) {
	case "rsa-sha2-256":
		sum := sha256.Sum256(text)
		return rsa.VerifyPKCS1v15(&public, crypto.SHA256, sum[:], value) == nil
	case "rsa-sha2-512":
		sum := sha512.Sum512(text)
		return rsa.VerifyPKCS1v15(&public, crypto.SHA512, sum[:], value) == nil
	}
	return false
}
