//! Codes, hashes, and how hashes are written.

use data_encoding::{BASE64, HEXLOWER};
use ring::digest::{Context, SHA256};
use sha1::{Digest, Sha1};

/// A code of section 11.
pub type Code = &'static str;

/// A rule, and its code.
pub fn must(good: bool, code: Code) -> Result<(), Code> {
    if good { Ok(()) } else { Err(code) }
}

/// A SHA-256.
pub type Hash = [u8; 32];
/// The id of a git object.
pub type Id = [u8; 20];

pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// What `hex` writes, of just this size.
pub fn from_hex<const SIZE: usize>(digits: impl AsRef<[u8]>) -> Option<[u8; SIZE]> {
    HEXLOWER.decode(digits.as_ref()).ok()?.try_into().ok()
}

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// What `base64` writes; nothing in another spelling. (The library takes several padded texts in a row.)
pub fn unbase64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.as_bytes()).ok().filter(|bytes| base64(bytes) == text)
}

pub fn sha256(parts: &[&[u8]]) -> Hash {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// The beginning of git's hash of an object: its type and size have been taken in.
pub fn object_hash(kind: &str, size: u64) -> Sha1 {
    Sha1::new_with_prefix(format!("{kind} {size}\0"))
}

/// The id of a git object, whose bytes are these parts.
pub fn object_id(kind: &str, parts: &[&[u8]]) -> Id {
    let mut hash = object_hash(kind, parts.iter().map(|part| part.len() as u64).sum());
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}
