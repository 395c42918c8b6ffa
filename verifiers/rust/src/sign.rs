//! Signatures (section 9): SSHSIG blocks, and the allowed signers.

use crate::base::{base64, sha256, unbase64};
use crate::event::moment;
use ring::digest::{SHA256, SHA512, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512,
    RsaPublicKeyComponents, UnparsedPublicKey,
};

/// Strings of RFC 4251 behind each other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn string(&mut self) -> Option<&'a [u8]> {
        let (size, rest) = self.0.split_first_chunk()?;
        let (string, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
        self.0 = rest;
        Some(string)
    }

    /// Exactly so many.
    fn strings<const COUNT: usize>(mut self) -> Option<[&'a [u8]; COUNT]> {
        let mut strings = [&self.0[..0]; COUNT];
        for string in &mut strings {
            *string = self.string()?;
        }
        self.0.is_empty().then_some(strings)
    }
}

/// A positive number in its only spelling, without the zero byte that a high first bit needs.
fn mpint(string: &[u8]) -> Option<&[u8]> {
    match string {
        [0, rest @ ..] => Some(rest).filter(|rest| rest.first() >= Some(&0x80)),
        [1..0x80, ..] => Some(string),
        _ => None,
    }
}

/// What `verify` found: public key, its fingerprint, and whether it is of a kind that is checked here.
pub type Verified = (Vec<u8>, String, bool);

/// Checks one signature; None if it breaks a rule. `key` is the fingerprint that it must have.
pub fn verify(armour: &str, namespace: &str, message: &[u8], key: Option<&str>) -> Option<Verified> {
    let lines: Vec<&str> = armour.strip_suffix('\n').unwrap_or(armour).split('\n').collect();
    let ["-----BEGIN SSH SIGNATURE-----", lines @ .., "-----END SSH SIGNATURE-----"] = &lines[..] else { return None };
    let blob = unbase64(&lines.concat())?;
    let [public_key, space, reserved, hash_name, signature] =
        Fields(blob.strip_prefix(b"SSHSIG\0\0\0\x01")?).strings()?;
    let hash = match hash_name {
        b"sha256" => digest(&SHA256, message),
        b"sha512" => digest(&SHA512, message),
        _ => return None,
    };
    // The namespace keeps a signature that was made for something else from being used here. OpenSSH signs and checks an
    // empty reserved field, whatever stands there.
    (reserved.is_empty() && space == namespace.as_bytes()).then_some(())?;
    let fingerprint = format!("SHA256:{}", base64(&sha256(&[public_key])).trim_end_matches('='));
    key.is_none_or(|key| key == fingerprint).then_some(())?;
    let mut signed = b"SSHSIG".to_vec();
    for part in [space, reserved, hash_name, hash.as_ref()] {
        signed.extend((part.len() as u32).to_be_bytes());
        signed.extend(part);
    }
    Some((public_key.to_vec(), fingerprint, is_right(public_key, signature, &signed)?))
}

/// The table of section 9: true, false for a kind of key that is not checked, None for a signature that is not right.
fn is_right(public_key: &[u8], signature: &[u8], signed: &[u8]) -> Option<bool> {
    let mut key = Fields(public_key);
    let kind = key.string()?;
    if !matches!(kind, b"ssh-ed25519" | b"ecdsa-sha2-nistp256" | b"ecdsa-sha2-nistp384" | b"ssh-rsa") {
        return Some(false);
    }
    let [algorithm, bytes] = Fields(signature).strings()?;
    if kind == b"ssh-rsa" {
        let scheme = match algorithm {
            b"rsa-sha2-256" => &RSA_PKCS1_2048_8192_SHA256,
            b"rsa-sha2-512" => &RSA_PKCS1_2048_8192_SHA512,
            _ => return None,
        };
        let [e, n] = key.strings()?;
        let (e, n) = (mpint(e)?, mpint(n)?);
        // 2^31 and more, and fewer than 2048 bits: the library takes some of these; not all verifiers can.
        ((e.len(), e[0]) < (4, 0x80) && (n.len(), n[0]) >= (256, 0x80)).then_some(())?;
        RsaPublicKeyComponents { n, e }.verify(scheme, signed, bytes).ok()?;
    } else if algorithm != kind {
        return None;
    } else if kind == b"ssh-ed25519" {
        let [point] = key.strings()?;
        UnparsedPublicKey::new(&ED25519, point).verify(signed, bytes).ok()?;
    } else {
        let [curve, point] = key.strings()?;
        let (size, scheme): (usize, _) = match curve {
            b"nistp256" => (32, &ECDSA_P256_SHA256_FIXED),
            _ => (48, &ECDSA_P384_SHA384_FIXED),
        };
        let [r, s] = Fields(bytes).strings()?;
        let filled = |number| -> Option<Vec<u8>> {
            let number = mpint(number)?;
            Some([&vec![0; size.checked_sub(number.len())?], number].concat())
        };
        let fixed = [filled(r)?, filled(s)?].concat();
        (kind == [b"ecdsa-sha2-", curve].concat()).then_some(())?;
        UnparsedPublicKey::new(scheme, point).verify(signed, &fixed).ok()?;
    }
    Some(true)
}

/// A line of the allowed signers.
#[derive(Default)]
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
        let is_revoked = self.revoked.iter().any(|revoked| revoked == key);
        self.signers.iter().flatten().enumerate().find(|(_, signer)| {
            signer.key == key
                && !(is_revoked || signer.never)
                && signer.namespaces.as_ref().is_none_or(|patterns| is_allowed(namespace, patterns))
                && signer.valid_after.is_none_or(|after| after <= time)
                && signer.valid_before.is_none_or(|before| time < before)
        })
    }
}

/// What is read from the lines of a file that mean something; None if one cannot be read.
pub fn read_lines<T>(text: &str, read: fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).trim_matches([' ', '\t']));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(read).collect()
}

/// One field and the rest after the spaces.
fn field(text: &str) -> (&str, &str) {
    let (field, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    (field, rest.trim_start_matches([' ', '\t']))
}

/// `keytype base64 [comment]`: the key, if the type is the one that it says itself.
pub fn read_key(text: &str) -> Option<Vec<u8>> {
    let (kind, rest) = field(text);
    let key = unbase64(field(rest).0)?;
    (Fields(&key).string()? == kind.as_bytes()).then_some(key)
}

/// `principals [options] keytype base64 [comment]`.
pub fn read_signer(line: &str) -> Option<Signer> {
    let (principals, mut rest) = field(line);
    let mut signer = Signer { principals: principals.to_string(), ..Signer::default() };
    if let Some(key) = read_key(rest) {
        return Some(Signer { key, ..signer });
    }
    loop {
        let (name, after) = rest.split_at(rest.find(['=', ',', ' ', '\t'])?);
        (!name.is_empty() && !name.contains('"')).then_some(())?;
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
        let Some(more) = after.strip_prefix(',') else {
            let key = read_key(after.strip_prefix([' ', '\t'])?.trim_start_matches([' ', '\t']))?;
            return Some(Signer { key, ..signer });
        };
        rest = more;
    }
}

/// An option that must have a value and stand there once.
fn set<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    place.replace(value?).is_none().then_some(())
}

/// `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, perhaps with `Z`; UTC.
fn read_time(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('Z').unwrap_or(text);
    let good = matches!(digits.len(), 8 | 12 | 14) && digits.bytes().all(|byte| byte.is_ascii_digit());
    moment(&format!("{:0<14}", good.then_some(digits)?))
}

/// A list of patterns, as OpenSSH reads it: one without `!` must match, and none with it.
pub fn is_allowed(namespace: &str, patterns: &str) -> bool {
    let any = |refused: bool| {
        let mut patterns = patterns.split(',').filter(|one| one.starts_with('!') == refused);
        patterns.any(|one| matches(namespace.as_bytes(), one.strip_prefix('!').unwrap_or(one).as_bytes()))
    };
    any(false) && !any(true)
}

/// `*` and `?`, in time of length times length.
pub fn matches(text: &[u8], pattern: &[u8]) -> bool {
    // Which beginnings of the text, by their length, the pattern so far matches.
    let mut matched: Vec<bool> = (0..=text.len()).map(|length| length == 0).collect();
    for byte in pattern {
        let mut next = vec![*byte == b'*' && matched[0]];
        for (at, char) in text.iter().enumerate() {
            let is_one = matched[at] && (*byte == b'?' || byte == char);
            next.push(if *byte == b'*' { matched[at + 1] || next[at] } else { is_one });
        }
        matched = next;
    }
    matched[text.len()]
}
