//! One event alone (section 6), names in refs (section 7 of format.md), and moments.

use crate::base::{Code, Hash, from_hex, hex, must, sha256};
use crate::json::{self, Node, Value};
use data_encoding::HEXUPPER;
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
    pub epoch: i64,
    pub files: Vec<File>,
    /// None: null.
    pub prev: Option<Hash>,
    pub seq: u64,
    pub session: Cow<'a, str>,
    /// Whole seconds of `ts`.
    pub time: u64,
    pub kind: &'a str,
    pub hash: Hash,
}

/// What an event says of a side file.
pub struct File {
    pub sha256: Hash,
    pub size: u64,
}

impl<'a> Event<'a> {
    /// The event, or the code of the first rule in the list of section 6 that is broken.
    pub fn read(raw: &'a [u8], nodes: &'a mut Vec<Node>) -> Result<Event<'a>, Code> {
        must(raw.len() <= MAX_EVENT, "bad-member")?;
        let object = json::read(raw, nodes)?;
        must(object.is_object(), "bad-json")?;
        let mut found = [None; NAMES.len()];
        let mut is_known = true;
        for (name, value) in object.members() {
            match NAMES.iter().position(|known| *known == name) {
                Some(place) => found[place] = Some(value),
                None => is_known = false,
            }
        }
        let [actor, data, data_sha256, epoch, files, prev, salt, seq, session, ts, turn, kind, v] = found;
        let integer = |value: Option<Value>| value.and_then(Value::integer).unwrap_or(0);
        let (seq_number, epoch_number) = (integer(seq), integer(epoch));
        must(integer(v) == 1, "bad-version")?;
        must(is_known && [actor, epoch, prev, seq, session, ts, kind].iter().all(Option::is_some), "bad-member")?;
        must((1..=MAX_SEQ).contains(&seq_number), "bad-seq")?;
        must(epoch_number >= 1, "bad-epoch")?;

        // A pattern without quote and backslash can be matched on the undecoded text.
        let text = |value: Option<Value<'a>>, rule: fn(&str) -> bool| value?.inner().filter(|text| rule(text));
        let may_be = |value: Option<Value<'a>>, rule| value.is_none() || text(value, rule).is_some();
        let row_9 = || {
            let event = Event {
                actor: text(actor, is_actor)?,
                data,
                epoch: epoch_number,
                files: files.map_or(Some(Vec::new()), read_files)?,
                prev: prev?.inner().and_then(from_hex),
                seq: seq_number as u64,
                session: session?.string().filter(|session| is_name(session, 200))?,
                time: timestamp(ts?.inner()?)?,
                kind: text(kind, is_type)?,
                hash: if data.is_some() { hash_of_full(object) } else { sha256(&[raw]) },
            };
            let form = match data {
                Some(data) => {
                    data_sha256.is_none() && data.is_object() && tags_are_good(data, event.files.len() as i64)
                }
                None => data_sha256?.inner().and_then(from_hex::<32>).is_some() && salt.is_none() && files.is_none(),
            };
            let prev_is_good = event.prev.is_some() || prev?.raw() == "null";
            (form && prev_is_good && may_be(turn, is_turn) && may_be(salt, is_salt)).then_some(event)
        };
        let event = row_9().ok_or("bad-member")?;
        must(event.prev.is_none() == (event.seq == 1), "broken-link")?;
        must(data.is_some() || !matches!(event.kind, "session.branch" | "session.fork"), "bad-fork")?;
        must(data.is_some() || event.kind != "session.seal", "bad-seal")?;
        must((event.kind == "session.start") == (event.seq == 1), "bad-fork")?;
        Ok(event)
    }
}

/// Section 3 of format.md: of the header, in which the hash of the body stands for it. Members are sorted as they come.
fn hash_of_full(object: Value) -> Hash {
    let members = || object.members().map(|(name, value)| (name, value.raw()));
    let body = sha256(&[print(members().filter(|member| matches!(member.0, "data" | "files" | "salt"))).as_bytes()]);
    let body = format!("\"{}\"", hex(&body));
    let header = members().filter_map(|member| match member.0 {
        "data" => Some(("data_sha256", &*body)),
        "files" | "salt" => None,
        _ => Some(member),
    });
    sha256(&[print(header).as_bytes()])
}

fn print<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::new();
    for (name, raw) in members {
        out.extend([if out.is_empty() { "{\"" } else { ",\"" }, name, "\":", raw]);
    }
    out + "}"
}

/// Section 4 of format.md: 1 to 1,000 descriptions of side files.
fn read_files(files: Value) -> Option<Vec<File>> {
    let files: Vec<_> = files.items()?.map(read_file).collect::<Option<_>>()?;
    (1..=1000).contains(&files.len()).then_some(files)
}

fn read_file(file: Value) -> Option<File> {
    let media_type = file.get("media_type")?.string()?;
    let sha256 = from_hex(file.get("sha256")?.inner()?)?;
    let size = file.get("size")?.integer()?.try_into().ok()?;
    let good = file.members().all(|member| ["media_type", "name", "sha256", "size"].contains(&member.0))
        && (1..=127).contains(&media_type.len())
        && media_type.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && file.get("name").is_none_or(|name| name.string().is_some_and(|name| is_name(&name, 255)));
    good.then_some(File { sha256, size })
}

/// "Tags" of section 6; `files` is how many side files the event has.
fn tags_are_good(data: Value, files: i64) -> bool {
    let is_number = |value: Value| value.integer().is_some_and(|number| (1..=files).contains(&number));
    let is_pointer = |value: Value| value.inner().is_some_and(|text| text.is_empty() || text.starts_with('/'));
    let is_tag = |name, value: Value| match name {
        "$gj:file" => is_number(value),
        "$gj:ref" => {
            let pair: Vec<_> = value.items().into_iter().flatten().take(3).collect();
            matches!(pair[..], [file, pointer] if is_number(file) && is_pointer(pointer))
        }
        "$gj:json" | "$gj:b64" => value.inner().is_some(),
        _ => false,
    };
    // Most events have none.
    !data.raw().contains("\"$gj:")
        || data.objects().all(|object| {
            let mut tags = object.members().filter(|member| member.0.starts_with("$gj:"));
            tags.all(|(name, value)| object.members().count() == 1 && is_tag(name, value))
        })
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
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_word = |word: &str| word.starts_with(char::is_lowercase) && word.bytes().all(is_plain);
    text.len() <= 64 && text.split('.').all(is_word)
}

fn is_turn(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn is_salt(text: &str) -> bool {
    text.len() == 22 && is_turn(text) && text.ends_with(['A', 'Q', 'g', 'w'])
}

/// Whole seconds of `YYYY-MM-DDTHH:MM:SS.mmmZ`.
pub fn timestamp(text: &str) -> Option<u64> {
    let form = |(byte, place): (u8, u8)| if place == b'0' { byte.is_ascii_digit() } else { byte == place };
    let good = text.len() == 24 && text.bytes().zip(*b"0000-00-00T00:00:00.000Z").all(form);
    moment(&good.then_some(text)?[..19].replace(['-', 'T', ':'], ""))
}

/// Unix seconds of the digits `YYYYMMDDHHMMSS`, if the moment exists and is in 1970 or later.
pub fn moment(digits: &str) -> Option<u64> {
    let number = |from: usize, to: usize| digits[from..to].parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(8, 10)?, number(10, 12)?, number(12, 14)?);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let months = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month = (month as usize).checked_sub(1)?;
    let is_day = (1..=*months.get(month)?).contains(&day);
    (year >= 1970 && is_day && hour < 24 && minute < 60 && second < 60).then_some(())?;
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let days = years + months[..month].iter().sum::<u64>() + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// A session or branch as a part of a ref name (section 7 of format.md).
pub fn encode(name: &str) -> String {
    let bytes = name.as_bytes();
    let mut out = String::new();
    for (at, &byte) in bytes.iter().enumerate() {
        let plain = match byte {
            b'.' => at > 0 && !matches!(bytes[at..], [_] | [_, b'.', ..]) && bytes[at..] != *b".lock",
            b'-' => at > 0,
            _ => byte.is_ascii_alphanumeric() || byte == b'_',
        };
        if plain { out.push(byte as char) } else { out += &format!("%{byte:02X}") }
    }
    out
}

/// Whether a part of a ref is spelled as `encode` does it, and what it stands for is a name.
pub fn is_part(part: &str) -> bool {
    let mut pieces = part.split('%');
    let mut name = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let Some((digits, plain)) = piece.as_bytes().split_at_checked(2) else { return false };
        let Ok(byte) = HEXUPPER.decode(digits) else { return false };
        name.extend([&byte, plain].concat());
    }
    part.len() <= 240 && String::from_utf8(name).is_ok_and(|name| is_name(&name, 200) && encode(&name) == part)
}
