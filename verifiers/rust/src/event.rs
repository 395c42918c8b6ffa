//! One event alone (section 6), names in refs (section 7 of format.md), and moments.

use crate::json::{self, Node, Value};
use crate::sign::sha256;
use crate::{Code, Hash, hex};
use std::borrow::Cow;

pub const MAX_EVENT: usize = 16 << 20;
const MAX_SEQ: i64 = 99_999_999;
const NAMES: [&str; 13] =
    ["actor", "data", "data_sha256", "epoch", "files", "prev", "salt", "seq", "session", "ts", "turn", "type", "v"];

/// An event that keeps all rules of section 6.
pub struct Event<'a> {
    pub actor: &'a str,
    /// None: withheld.
    pub data: Option<Value<'a>>,
    pub epoch: u64,
    pub files: Vec<File>,
    /// As it is stored: `null`, or a hash in quotes.
    pub prev: &'a str,
    pub seq: u64,
    pub session: Cow<'a, str>,
    /// Whole seconds of `ts`.
    pub time: u64,
    pub kind: &'a str,
    pub hash: Hash,
}

/// What an event says of a side file.
pub struct File {
    pub sha256: String,
    pub size: u64,
}

impl<'a> Event<'a> {
    /// The event, or the code of the first rule in the list of section 6 that is broken.
    pub fn read(raw: &'a [u8], nodes: &'a mut Vec<Node>) -> Result<Event<'a>, Code> {
        if raw.len() > MAX_EVENT {
            return Err("bad-member");
        }
        let event = json::read(raw, nodes)?;
        if !event.is_object() {
            return Err("bad-json");
        }
        let mut found = [None; NAMES.len()];
        let mut unknown = false;
        for (name, value) in event.members() {
            match NAMES.iter().position(|known| *known == name) {
                Some(place) => found[place] = Some(value),
                None => unknown = true,
            }
        }
        let [actor, data, data_sha256, epoch, files, prev, salt, seq, session, ts, turn, kind, v] = found;
        if v.and_then(Value::integer) != Some(1) {
            return Err("bad-version");
        }
        let (Some(actor), Some(epoch), Some(prev), Some(seq), Some(session), Some(ts), Some(kind), false) =
            (actor, epoch, prev, seq, session, ts, kind, unknown)
        else {
            return Err("bad-member");
        };
        let seq = seq.integer().filter(|seq| (1..=MAX_SEQ).contains(seq)).ok_or("bad-seq")? as u64;
        let epoch_number = epoch.integer().filter(|epoch| *epoch >= 1).ok_or("bad-epoch")? as u64;

        // Row 9. A pattern without quote and backslash can be matched on the undecoded text.
        let member = |good: bool| if good { Ok(()) } else { Err("bad-member") };
        let session = session.string().filter(|session| is_name(session, 200)).ok_or("bad-member")?;
        let actor = actor.inner().filter(|actor| is_actor(actor)).ok_or("bad-member")?;
        let kind = kind.inner().filter(|kind| is_type(kind)).ok_or("bad-member")?;
        let time = ts.inner().and_then(timestamp).ok_or("bad-member")?;
        member(prev.raw() == "null" || prev.inner().is_some_and(|prev| is_hex(prev, 64)))?;
        member(turn.is_none_or(|turn| turn.inner().is_some_and(is_turn)))?;
        member(salt.is_none_or(|salt| salt.inner().is_some_and(is_salt)))?;
        member(data.is_some() != data_sha256.is_some() && data.is_none_or(Value::is_object))?;
        member(data_sha256.is_none_or(|hash| hash.inner().is_some_and(|hash| is_hex(hash, 64))))?;
        member(data.is_some() || (files.is_none() && salt.is_none()))?;
        let descriptions = match files {
            Some(files) => read_files(files).ok_or("bad-member")?,
            None => Vec::new(),
        };
        if let Some(data) = data
            && data.raw().contains("\"$gj:")
        {
            member(tags_are_good(data, descriptions.len() as i64))?;
        }

        if (prev.raw() == "null") != (seq == 1) {
            return Err("broken-link");
        }
        match kind {
            "session.branch" | "session.fork" if data.is_none() => return Err("bad-fork"),
            "session.seal" if data.is_none() => return Err("bad-seal"),
            _ if (kind == "session.start") != (seq == 1) => return Err("bad-fork"),
            _ => {}
        }
        let hash = match data {
            None => sha256(&[raw]),
            Some(data) => hash_of_full(raw, data, epoch, files, prev, salt),
        };
        let prev = prev.raw();
        Ok(Event { actor, data, epoch: epoch_number, files: descriptions, prev, seq, session, time, kind, hash })
    }
}

/// Section 3 of format.md. Body and header are cut out of the stored bytes, which are sorted: actor, data, epoch, files,
/// prev, salt, seq, and the rest.
fn hash_of_full(raw: &[u8], data: Value, epoch: Value, files: Option<Value>, prev: Value, salt: Option<Value>) -> Hash {
    let piece = |from: usize, to: usize| &raw[from..to];
    let from_files = epoch.end();
    let to_files = files.map_or(epoch.end(), Value::end);
    let to_salt = salt.map_or(prev.end(), Value::end);
    let body =
        sha256(&[b"{\"data\":", data.raw().as_bytes(), piece(from_files, to_files), piece(prev.end(), to_salt), b"}"]);
    let before_data = data.start() - "\"data\":".len();
    sha256(&[
        piece(0, before_data),
        b"\"data_sha256\":\"",
        hex(&body).as_bytes(),
        b"\"",
        piece(data.end(), epoch.end()),
        piece(to_files, prev.end()),
        piece(to_salt, raw.len()),
    ])
}

/// Section 4 of format.md: 1 to 1,000 descriptions of side files.
fn read_files(files: Value) -> Option<Vec<File>> {
    let mut descriptions = Vec::new();
    for file in files.items()? {
        let name = file.get("name");
        let members = ["media_type", "name", "sha256", "size"];
        let (sha256, size) = (file.get("sha256")?.inner()?, file.get("size")?.integer()?);
        let media_type = file.get("media_type")?.string()?;
        let good = file.members().all(|member| members.contains(&member.0))
            && is_hex(sha256, 64)
            && size >= 0
            && (1..=127).contains(&media_type.len())
            && media_type.bytes().all(|byte| (0x20..0x7F).contains(&byte))
            && name.is_none_or(|name| name.string().is_some_and(|name| is_name(&name, 255)))
            && descriptions.len() < 1000;
        if !good {
            return None;
        }
        descriptions.push(File { sha256: sha256.to_string(), size: size as u64 });
    }
    (!descriptions.is_empty()).then_some(descriptions)
}

/// "Tags" of section 6; `files` is how many side files the event has.
fn tags_are_good(data: Value, files: i64) -> bool {
    let is_number = |value: Value| value.integer().is_some_and(|number| (1..=files).contains(&number));
    let is_pointer = |value: Value| value.inner().is_some_and(|text| text.is_empty() || text.starts_with('/'));
    let is_reference = |value: Value| {
        value.items().is_some_and(|items| match items.take(3).collect::<Vec<_>>()[..] {
            [file, pointer] => is_number(file) && is_pointer(pointer),
            _ => false,
        })
    };
    data.objects().all(|object| {
        object.members().filter(|member| member.0.starts_with("$gj:")).all(|(name, value)| {
            object.members().count() == 1
                && match name {
                    "$gj:file" => is_number(value),
                    "$gj:ref" => is_reference(value),
                    "$gj:json" | "$gj:b64" => value.inner().is_some(),
                    _ => false,
                }
        })
    })
}

pub fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// 1 to `most` bytes of UTF-8 without control characters (those of Unicode: U+0000 to U+001F and U+007F to U+009F).
pub fn is_name(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && !text.chars().any(char::is_control)
}

pub fn is_actor(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@/+-".contains(&byte);
    (1..=100).contains(&text.len()) && text.as_bytes()[0].is_ascii_alphanumeric() && text.bytes().all(is_plain)
}

pub fn is_type(text: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    text.len() <= 64 && text.split('.').all(is_word)
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_turn(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(is_base64url)
}

fn is_salt(text: &str) -> bool {
    text.len() == 22 && text.bytes().all(is_base64url) && text.ends_with(['A', 'Q', 'g', 'w'])
}

/// Whole seconds of `YYYY-MM-DDTHH:MM:SS.mmmZ`.
fn timestamp(text: &str) -> Option<u64> {
    let form = |(byte, place): (u8, u8)| if place == b'0' { byte.is_ascii_digit() } else { byte == place };
    if text.len() != 24 || !text.bytes().zip(*b"0000-00-00T00:00:00.000Z").all(form) {
        return None;
    }
    let digits: String = text[..19].chars().filter(char::is_ascii_digit).collect();
    moment(&digits)
}

/// Unix seconds of `YYYYMMDDHHMMSS`, if the moment exists and is in 1970 or later.
pub fn moment(digits: &str) -> Option<u64> {
    let number = |from: usize, to: usize| digits[from..to].parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(8, 10)?, number(10, 12)?, number(12, 14)?);
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let in_month = *days.get(usize::try_from(month - 1).ok()?)?;
    if year < 1970 || !(1..=in_month).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400 - 477; // 477 of them up to 1969
    let days_before: i64 = days[..month as usize - 1].iter().sum();
    let all = (year - 1970) * 365 + leap_days + days_before + day - 1;
    u64::try_from(((all * 24 + hour) * 60 + minute) * 60 + second).ok()
}

/// A session or branch as a part of a ref name (section 7 of format.md).
pub fn encode(name: &str) -> String {
    let bytes = name.as_bytes();
    let mut out = String::new();
    for (at, &byte) in bytes.iter().enumerate() {
        let next_is_dot = bytes.get(at + 1).is_none_or(|next| *next == b'.');
        let plain = match byte {
            b'.' => at > 0 && !next_is_dot && &bytes[at..] != b".lock",
            b'-' => at > 0,
            _ => byte.is_ascii_alphanumeric() || byte == b'_',
        };
        if plain { out.push(byte as char) } else { out.push_str(&format!("%{byte:02X}")) }
    }
    out
}

/// The name behind a part of a ref, if it is spelled as `encode` does it and is a name.
pub fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            let digit = |at: usize| (digits[at] as char).to_digit(16);
            bytes.push((digit(0)? * 16 + digit(1)?) as u8);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok().filter(|name| is_name(name, 200) && encode(name) == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"actor":"a","data":{},"epoch":1,"prev":null,"seq":1,"session":"s","ts":"2026-01-02T03:04:05.678Z","type":"session.start","v":1}"#;

    fn code(old: &str, new: &str) -> Option<Code> {
        assert!(GOOD.contains(old));
        Event::read(GOOD.replace(old, new).as_bytes(), &mut Vec::new()).err()
    }

    #[test]
    fn codes_in_their_order() {
        assert_eq!(code("", ""), None);
        let file = |extra: &str| {
            let sha = "0".repeat(64);
            format!(r#""epoch":1,"files":[{{"media_type":"a/b",{extra}"sha256":"{sha}","size":1}}]"#)
        };
        let (one, named, wrong) = (file(""), file(r#""name":"n","#), file(r#""other":1,"#));
        for (old, new, expected) in [
            (r#""v":1"#, r#""v":2"#, Some("bad-version")),
            (r#","v":1"#, "", Some("bad-version")),
            (r#""actor":"a","#, "", Some("bad-member")),
            (r#""v":1"#, r#""v":1,"w":1"#, Some("bad-member")),
            (r#""seq":1"#, r#""seq":0"#, Some("bad-seq")),
            (r#""seq":1"#, r#""seq":100000000"#, Some("bad-seq")),
            (r#""epoch":1"#, r#""epoch":0"#, Some("bad-epoch")),
            (r#""epoch":1"#, r#""epoch":"1""#, Some("bad-epoch")),
            (r#""seq":1"#, r#""seq":2"#, Some("broken-link")),
            (r#""session.start""#, r#""message""#, Some("bad-fork")),
            (r#""session.start""#, r#""A""#, Some("bad-member")),
            (r#""a","data":{}"#, r#""a","data":[]"#, Some("bad-member")),
            (r#"{},"epoch""#, r#"{"$gj:json":"x"},"epoch""#, None),
            (r#"{},"epoch""#, r#"{"$gj:json":"x","a":1},"epoch""#, Some("bad-member")),
            (r#"{},"epoch""#, r#"{"a":[{"$gj:file":1}]},"epoch""#, Some("bad-member")),
            (r#""epoch":1"#, &one, None),
            (r#""epoch":1"#, &named, None),
            (r#""epoch":1"#, &wrong, Some("bad-member")),
            (r#"{},"epoch":1"#, &format!(r#"{{"a":[{{"$gj:file":1}},{{"$gj:ref":[1,"/x"]}}]}},{one}"#), None),
            (r#"{},"epoch":1"#, &format!(r#"{{"$gj:ref":[1,"x"]}},{one}"#), Some("bad-member")),
        ] {
            assert_eq!(code(old, new), expected, "{old} -> {new}");
        }
    }

    #[test]
    fn moments() {
        assert_eq!(timestamp("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(timestamp("2000-02-29T23:59:59.999Z"), Some(951_868_799));
        assert_eq!(timestamp("9999-12-31T23:59:59.999Z"), Some(253_402_300_799));
        for bad in ["1969-12-31T23:59:59.000Z", "2100-02-29T00:00:00.000Z", "2026-04-31T00:00:00.000Z"] {
            assert_eq!(timestamp(bad), None);
        }
        for bad in ["2026-01-01T24:00:00.000Z", "2026-01-01T00:00:60.000Z", "2026-00-01T00:00:00.000Z", "2026-01-01"] {
            assert_eq!(timestamp(bad), None);
        }
    }

    #[test]
    fn names_in_refs() {
        let all = ["a", "a b/c", ".a", "-a", "a..b", "a.", "a.lock", "a.locks", ".", "..", "é", "a-b_c.d", "%"];
        let spelled = "a a%20b%2Fc %2Ea %2Da a%2E.b a%2E a%2Elock a.locks %2E %2E%2E %C3%A9 a-b_c.d %25";
        for (name, part) in all.into_iter().zip(spelled.split(' ')) {
            assert_eq!(encode(name), part);
            assert_eq!(decode(part).as_deref(), Some(name));
        }
        for bad in ["", "a b", "%61", "%c3%a9", "%C3", "%", "%4", "%0A", ".a", "a.lock", &"a".repeat(201)] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
