//! Signatures (section 9): SSHSIG blocks, the allowed signers, and hashes.

use crate::event::moment;
use crate::{Hash, Id};
use ring::digest::{Algorithm, Context, SHA256, SHA512};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use sha1::{Digest, Sha1};

fn digest<const SIZE: usize>(algorithm: &'static Algorithm, parts: &[&[u8]]) -> [u8; SIZE] {
    let mut context = Context::new(algorithm);
    parts.iter().for_each(|part| context.update(part));
    let mut out = [0; SIZE];
    out.copy_from_slice(context.finish().as_ref());
    out
}

pub fn sha256(parts: &[&[u8]]) -> Hash {
    digest(&SHA256, parts)
}

/// The beginning of git's hash of an object: its type and size have been taken in.
pub fn object_hash(kind: &str, size: u64) -> Sha1 {
    Sha1::new_with_prefix(format!("{kind} {size}\0"))
}

/// The id of a git object.
pub fn object_id(kind: &str, bytes: &[u8]) -> Id {
    object_hash(kind, bytes.len() as u64).chain_update(bytes).finalize().into()
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize] as char;
            out.push(if place > group.len() { '=' } else { digit });
        }
    }
    out
}

/// The bytes of a text that `base64` makes; None for any other spelling.
pub fn unbase64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(digits.len());
    for group in digits.chunks(4) {
        let mut bits = 0;
        for place in 0..4 {
            let digit = group.get(place).map_or(Some(0), |digit| DIGITS.iter().position(|known| known == digit))?;
            bits = bits << 6 | digit as u32;
        }
        out.extend(&bits.to_be_bytes()[1..(group.len() * 6 / 8 + 1)]);
    }
    (base64(&out) == text).then_some(out)
}

/// Strings and numbers of RFC 4251. All of it must be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let size = self.number()? as usize;
        let (string, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(string)
    }

    /// A positive number in its only spelling, without the zero byte that a high first bit needs.
    fn mpint(&mut self) -> Option<&'a [u8]> {
        match self.string()? {
            [0, rest @ ..] if rest.first().is_some_and(|byte| *byte >= 0x80) => Some(rest),
            number if number.first().is_some_and(|byte| (1..0x80).contains(byte)) => Some(number),
            _ => None,
        }
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

pub enum Verified {
    /// A kind of key that is not checked here.
    NotChecked,
    Right {
        public_key: Vec<u8>,
        fingerprint: String,
    },
}

/// Checks one signature; None if it breaks a rule. `key` is the fingerprint that it must have.
pub fn verify(armour: &str, namespace: &str, message: &[u8], key: Option<&str>) -> Option<Verified> {
    let body = armour.strip_suffix('\n').unwrap_or(armour);
    let body = body.strip_prefix("-----BEGIN SSH SIGNATURE-----\n")?;
    let body = body.strip_suffix("-----END SSH SIGNATURE-----")?;
    let lines = if body.is_empty() { "" } else { body.strip_suffix('\n')? };
    let blob = unbase64(&lines.replace('\n', ""))?;

    let mut fields = Fields(blob.strip_prefix(b"SSHSIG")?);
    let version = fields.number()?;
    let (public_key, space, reserved) = (fields.string()?, fields.string()?, fields.string()?);
    let (hash_name, signature) = (fields.string()?, fields.string()?);
    fields.end()?;
    let hash = match hash_name {
        b"sha256" => digest::<32>(&SHA256, &[message]).to_vec(),
        b"sha512" => digest::<64>(&SHA512, &[message]).to_vec(),
        _ => return None,
    };
    // The namespace keeps a signature that was made for something else from being used here. OpenSSH signs and checks an
    // empty reserved field, whatever stands there.
    if version != 1 || !reserved.is_empty() || space != namespace.as_bytes() {
        return None;
    }
    let fingerprint = format!("SHA256:{}", base64(&sha256(&[public_key])).trim_end_matches('='));
    if key.is_some_and(|key| key != fingerprint) {
        return None;
    }
    let mut signed = b"SSHSIG".to_vec();
    for part in [space, reserved, hash_name, &hash] {
        signed.extend((part.len() as u32).to_be_bytes());
        signed.extend(part);
    }
    if is_right(public_key, signature, &signed)? {
        Some(Verified::Right { public_key: public_key.to_vec(), fingerprint })
    } else {
        Some(Verified::NotChecked)
    }
}

/// The table of section 9: true, false for a kind of key that is not checked, None for a signature that is not right.
fn is_right(public_key: &[u8], signature: &[u8], signed: &[u8]) -> Option<bool> {
    let mut key = Fields(public_key);
    let kind = key.string()?;
    let mut fields = Fields(signature);
    let mut parts = || {
        let (algorithm, bytes) = (fields.string()?, fields.string()?);
        fields.end()?;
        Some((algorithm, bytes))
    };
    match kind {
        b"ssh-ed25519" => {
            let (algorithm, bytes) = parts()?;
            let point = key.string()?;
            if algorithm != kind || point.len() != 32 || bytes.len() != 64 {
                return None;
            }
            UnparsedPublicKey::new(&ED25519, point).verify(signed, bytes).ok()?;
        }
        b"ecdsa-sha2-nistp256" | b"ecdsa-sha2-nistp384" => {
            let (algorithm, bytes) = parts()?;
            let (curve, point) = (key.string()?, key.string()?);
            let (size, scheme) =
                if kind.ends_with(b"256") { (32, &ECDSA_P256_SHA256_FIXED) } else { (48, &ECDSA_P384_SHA384_FIXED) };
            if algorithm != kind || !kind.ends_with(curve) || curve.len() != 8 {
                return None;
            }
            let mut numbers = Fields(bytes);
            let (r, s) = (numbers.mpint()?, numbers.mpint()?);
            numbers.end()?;
            let mut fixed = vec![0; 2 * size];
            fixed[size.checked_sub(r.len())?..size].copy_from_slice(r);
            fixed[(2 * size).checked_sub(s.len()).filter(|from| *from >= size)?..].copy_from_slice(s);
            UnparsedPublicKey::new(scheme, point).verify(signed, &fixed).ok()?;
        }
        b"ssh-rsa" => {
            let (algorithm, bytes) = parts()?;
            let (e, n) = (key.mpint()?, key.mpint()?);
            let bits = n.len() * 8 - n[0].leading_zeros() as usize;
            let exponent =
                e.iter().try_fold(0u32, |number, byte| number.checked_mul(256)?.checked_add(u32::from(*byte)));
            // The library takes bigger exponents; not all verifiers can.
            if !(2048..=8192).contains(&bits) || exponent.is_none_or(|e| !(3..1 << 31).contains(&e) || e % 2 == 0) {
                return None;
            }
            let scheme = match algorithm {
                b"rsa-sha2-256" => &RSA_PKCS1_2048_8192_SHA256,
                b"rsa-sha2-512" => &RSA_PKCS1_2048_8192_SHA512,
                _ => return None,
            };
            RsaPublicKeyComponents { n, e }.verify(scheme, signed, bytes).ok()?;
        }
        _ => return Some(false),
    }
    key.end()?;
    Some(true)
}

/// A line of the allowed signers.
pub struct Signer {
    pub principals: String,
    key: Vec<u8>,
    namespaces: Option<String>,
    valid_after: Option<u64>,
    pub valid_before: Option<u64>,
    /// It has an option that is not known here.
    never: bool,
}

/// The keys that the auditor knows.
#[derive(Default)]
pub struct Trust {
    pub signers: Option<Vec<Signer>>,
    pub revoked: Vec<Vec<u8>>,
}

impl Trust {
    /// The first line (its place) that accepts a right signature.
    pub fn accepts(&self, key: &[u8], namespace: &str, time: u64) -> Option<(usize, &Signer)> {
        if self.revoked.iter().any(|revoked| revoked == key) {
            return None;
        }
        self.signers.iter().flatten().enumerate().find(|(_, signer)| {
            !signer.never
                && signer.key == key
                && signer.namespaces.as_ref().is_none_or(|patterns| is_allowed(namespace, patterns))
                && signer.valid_after.is_none_or(|after| after <= time)
                && signer.valid_before.is_none_or(|before| time < before)
        })
    }
}

/// The lines of a file of keys, without those that mean nothing.
fn key_lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).trim_matches([' ', '\t']));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// One field and the rest after the spaces; quotes protect spaces where they have a meaning.
fn field(text: &str, quotes: bool) -> (&str, &str) {
    let mut quoted = false;
    let end = text.find(|char| {
        quoted ^= quotes && char == '"';
        !quoted && (char == ' ' || char == '\t')
    });
    let (field, rest) = text.split_at(end.unwrap_or(text.len()));
    (field, rest.trim_start_matches([' ', '\t']))
}

/// `keytype base64 [comment]`: the key, if the type is the one that it says itself.
fn key_of(text: &str) -> Option<Vec<u8>> {
    let (kind, rest) = field(text, false);
    let key = unbase64(field(rest, false).0)?;
    (Fields(&key).string()? == kind.as_bytes()).then_some(key)
}

/// A file of allowed signers; None if a line cannot be read.
pub fn read_signers(text: &str) -> Option<Vec<Signer>> {
    key_lines(text).map(read_signer).collect()
}

/// A file of revoked keys; None if a line cannot be read.
pub fn read_revoked(text: &str) -> Option<Vec<Vec<u8>>> {
    key_lines(text).map(key_of).collect()
}

fn read_signer(line: &str) -> Option<Signer> {
    let (principals, rest) = field(line, false);
    let mut signer = Signer {
        principals: principals.to_string(),
        key: Vec::new(),
        namespaces: None,
        valid_after: None,
        valid_before: None,
        never: false,
    };
    if let Some(key) = key_of(rest) {
        signer.key = key;
        return Some(signer);
    }
    let (mut options, rest) = field(rest, true);
    signer.key = key_of(rest)?;
    loop {
        let end = options.find(['=', ',']).unwrap_or(options.len());
        let (name, after) = options.split_at(end);
        if name.is_empty() || name.contains([' ', '\t', '"']) {
            return None;
        }
        let (value, after) = match after.strip_prefix("=\"") {
            Some(value) => value.split_once('"').map(|(value, after)| (Some(value), after))?,
            None => (None, after),
        };
        match name.to_ascii_lowercase().as_str() {
            "namespaces" => set(&mut signer.namespaces, value.map(str::to_string))?,
            "valid-after" => set(&mut signer.valid_after, value.and_then(read_time))?,
            "valid-before" => set(&mut signer.valid_before, value.and_then(read_time))?,
            _ => signer.never = true,
        }
        if after.is_empty() {
            return Some(signer);
        }
        options = after.strip_prefix(',')?;
    }
}

/// An option that must have a value and stand there once.
fn set<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    if place.is_some() {
        return None;
    }
    *place = Some(value?);
    Some(())
}

/// `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, perhaps with `Z`; UTC.
fn read_time(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('Z').unwrap_or(text);
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    moment(&format!("{digits:0<14}"))
}

/// A list of patterns, as OpenSSH reads it: one without `!` must match, and none with it.
fn is_allowed(namespace: &str, patterns: &str) -> bool {
    let mut allowed = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(refused) if matches(namespace.as_bytes(), refused.as_bytes()) => return false,
            Some(_) => {}
            None => allowed |= matches(namespace.as_bytes(), pattern.as_bytes()),
        }
    }
    allowed
}

/// `*` and `?`, in time of at most length times length: only the last `*` is ever tried again.
fn matches(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut place, mut star) = (0, 0, None);
    while at < text.len() {
        match pattern.get(place) {
            Some(b'*') => {
                star = Some((place, at));
                place += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[at] => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((star_place, star_at)) = star else { return false };
                star = Some((star_place, star_at + 1));
                (at, place) = (star_at + 1, star_place + 1);
            }
        }
    }
    pattern[place..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_one_spelling() {
        for (bytes, text) in [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"\xfb\xff", "+/8=")]
        {
            assert_eq!(base64(bytes), text);
            assert_eq!(unbase64(text).as_deref(), Some(bytes));
        }
        for bad in ["Zg", "Zg=", "Zh==", "Zg==\n", "Z", "=", "Zm9v====", "Zm 9v", "-_8="] {
            assert_eq!(unbase64(bad), None, "{bad}");
        }
    }

    #[test]
    fn patterns() {
        assert!(
            is_allowed("git", "git") && is_allowed("git", "x,g*") && is_allowed("git", "*") && is_allowed("git", "?i?")
        );
        assert!(
            !is_allowed("git", "gi")
                && !is_allowed("git", "")
                && !is_allowed("git", "*,!git")
                && !is_allowed("git", "!x")
        );
        // Takes no time to speak of.
        assert!(!is_allowed("git", &format!("{}x", "*".repeat(10_000))));
        assert!(!matches("a".repeat(10_000).as_bytes(), format!("{}b", "*a".repeat(1_000)).as_bytes()));
    }

    #[test]
    fn signer_lines() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
        let accepts = |options: &str, time| {
            let signers = read_signers(&format!("# c\n\n \t{options} {key} a comment\r\n"));
            signers.map(|signers| {
                let key = signers[0].key.clone();
                let trust = Trust { signers: Some(signers), revoked: Vec::new() };
                trust.accepts(&key, "git", time).map(|found| found.1.principals.clone())
            })
        };
        let day = 1_767_225_600; // 2026-01-01
        assert_eq!(accepts("me,you", 0), Some(Some("me,you".to_string())));
        assert_eq!(accepts("me namespaces=\"a,g*\",Valid-After=\"20260101\"", day), Some(Some("me".to_string())));
        for never in [
            "namespaces=\"file\"",
            "cert-authority",
            "other=\"a b\"",
            "valid-after=\"202601010001Z\"",
            "valid-before=\"20260101\"",
        ] {
            assert_eq!(accepts(&format!("me {never}"), day), Some(None), "{never}");
        }
        for bad in [
            "namespaces",
            "valid-after=\"2026\"",
            "valid-after=\"20261301\"",
            "x=\"",
            "x=y",
            "a,,b",
            "a b",
            "namespaces=\"a\",namespaces=\"a\"",
        ] {
            assert_eq!(accepts(&format!("me {bad}"), day), None, "{bad}");
        }
        assert!(read_signers("me ssh-ed25519\n").is_none() && read_revoked("me ssh-ed25519 AAAA").is_none());
        assert_eq!(read_revoked(&format!("{key}\n")).map(|keys| keys.len()), Some(1));
    }
}
