//! Strict JSON (section 6, rows 2 and 3): one pass over the bytes checks RFC 8259 and I-JSON, and notes on the way whether
//! the text is what RFC 8785 prints. It must go on after something that is not canonical: `bad-json` further on wins.

use crate::Code;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

const MAX_DEPTH: usize = 64;
const NUMBER_BOUND: f64 = 9_007_199_254_740_992.0; // 2^53

/// Where a value or a member name stands, and the index of the node after it and all that is in it.
#[derive(Clone, Copy)]
pub struct Node {
    start: u32,
    end: u32,
    next: u32,
}

/// A value in a canonical text. The members of an object are its child nodes by twos: name, value.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    text: &'a str,
    nodes: &'a [Node],
    at: usize,
}

/// The value of a canonical text; else `bad-json` or `not-canonical`. `nodes` is room that is used again and again.
pub fn read<'a>(raw: &'a [u8], nodes: &'a mut Vec<Node>) -> Result<Value<'a>, Code> {
    // This one check refuses overlong forms, surrogates and what is above U+10FFFF.
    let text = std::str::from_utf8(raw).map_err(|_| "bad-json")?;
    if u32::try_from(text.len()).is_err() {
        return Err("bad-json");
    }
    let mut scanner = Scanner::new(text, nodes, false);
    let mut good = scanner.whole();
    if scanner.unsorted {
        // Names in ascending order cannot repeat. In another order only a set can tell, so all is read once more.
        scanner = Scanner::new(text, nodes, true);
        good = scanner.whole();
    }
    let canonical = scanner.canonical;
    match (good, canonical) {
        (None, _) => Err("bad-json"),
        (_, false) => Err("not-canonical"),
        _ => Ok(Value { text, nodes, at: 0 }),
    }
}

struct Scanner<'a, 'n> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    nodes: &'n mut Vec<Node>,
    canonical: bool,
    /// Keep the names of each object in a set.
    with_sets: bool,
    /// Stopped at a name that is not above the one before it.
    unsorted: bool,
}

/// Methods give None for what is no JSON, or breaks a rule of row 2.
impl<'a, 'n> Scanner<'a, 'n> {
    fn new(text: &'a str, nodes: &'n mut Vec<Node>, with_sets: bool) -> Self {
        nodes.clear();
        Scanner { text, bytes: text.as_bytes(), at: 0, nodes, canonical: true, with_sets, unsorted: false }
    }

    fn whole(&mut self) -> Option<()> {
        self.space();
        self.value(0)?;
        self.space();
        (self.at == self.bytes.len()).then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
            self.canonical = false;
        }
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        let node = self.open();
        match self.peek()? {
            b'{' => self.object(depth + 1)?,
            b'[' => self.array(depth + 1)?,
            b'"' => self.string()?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => self.number()?,
        }
        self.close(node);
        Some(())
    }

    fn open(&mut self) -> usize {
        self.nodes.push(Node { start: self.at as u32, end: 0, next: 0 });
        self.nodes.len() - 1
    }

    fn close(&mut self, node: usize) {
        self.nodes[node].end = self.at as u32;
        self.nodes[node].next = self.nodes.len() as u32;
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.bytes[self.at..].starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.enter(depth)?;
        if self.take(b']') {
            return Some(());
        }
        loop {
            self.value(depth)?;
            self.space();
            if self.take(b']') {
                return Some(());
            }
            self.comma()?;
        }
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.enter(depth)?;
        if self.take(b'}') {
            return Some(());
        }
        let mut last: Option<Cow<'a, str>> = None;
        let mut seen = HashSet::new();
        loop {
            let node = self.open();
            self.string()?;
            self.close(node);
            let name = unescape(&self.text[self.nodes[node].start as usize + 1..self.at - 1]);
            if self.with_sets && !seen.insert(name.clone()) {
                return None;
            }
            if last.is_some_and(|last| utf16_order(&last, &name) != Ordering::Less) {
                self.canonical = false;
                if !self.with_sets {
                    self.unsorted = true;
                    return None;
                }
            }
            last = Some(name);
            self.space();
            self.take(b':').then_some(())?;
            self.space();
            self.value(depth)?;
            self.space();
            if self.take(b'}') {
                return Some(());
            }
            self.comma()?;
        }
    }

    /// Past the opening bracket. The limit also bounds the recursion of these functions.
    fn enter(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        self.space();
        (depth <= MAX_DEPTH).then_some(())
    }

    fn comma(&mut self) -> Option<()> {
        self.take(b',').then(|| self.space())
    }

    fn string(&mut self) -> Option<()> {
        self.take(b'"').then_some(())?;
        loop {
            // Sixteen bytes at once, without a branch for each: most of a journal is text.
            while let Some(piece) = self.bytes.get(self.at..self.at + 16)
                && !piece.iter().fold(false, |any, &byte| any | (byte == b'"') | (byte == b'\\') | (byte < 0x20))
            {
                self.at += 16;
            }
            match self.peek()? {
                b'"' => break,
                b'\\' => self.escape()?,
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }

    fn escape(&mut self) -> Option<()> {
        match *self.bytes.get(self.at + 1)? {
            b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
            b'/' => {
                self.canonical = false;
                self.at += 2;
            }
            b'u' => {
                let unit = self.unit()?;
                // Only control characters without an escape of their own are written so, in lower case.
                let needed = unit < 0x20 && !matches!(unit, 8 | 9 | 10 | 12 | 13);
                self.canonical &= needed && !self.bytes[self.at - 4..self.at].iter().any(u8::is_ascii_uppercase);
                let low = if (0xD800..0xDC00).contains(&unit) { self.unit()? } else { 0xDC00 };
                if (0xDC00..0xE000).contains(&unit) || !(0xDC00..0xE000).contains(&low) {
                    return None;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// The four digits of a `\uXXXX`.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 6)?.strip_prefix(b"\\u")?;
        self.at += 6;
        digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + (digit as char).to_digit(16)?))
    }

    fn digits(&mut self) -> Option<usize> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > from).then_some(self.at - from)
    }

    fn number(&mut self) -> Option<()> {
        let from = self.at;
        self.take(b'-');
        let zero = self.peek() == Some(b'0');
        let whole = self.digits()?;
        if zero && whole > 1 {
            return None;
        }
        let integer_end = self.at;
        if self.take(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        let text = &self.text[from..self.at];
        if self.at == integer_end && whole <= 15 {
            return (text != "-0").then_some(());
        }
        let number: f64 = text.parse().ok()?;
        // What is too big for a double has become an infinity. `-1e-999` has become minus zero.
        if number.abs() >= NUMBER_BOUND || (number == 0.0 && number.is_sign_negative()) {
            return None;
        }
        self.canonical &= number_text(number) == text;
        Some(())
    }
}

/// A finite number as ECMAScript prints it (RFC 8785 section 3.2.2.3).
fn number_text(number: f64) -> String {
    let (sign, number) = (if number < 0.0 { "-" } else { "" }, number.abs());
    // As few digits as give the number back, in the form `d.ddde-7`. Of two such texts that are equally near, ECMAScript has
    // the even one, Rust the upper one; rounding to as many digits gives the even one.
    let shortest = format!("{number:e}");
    let digits_after = shortest.find('e').unwrap_or(1).saturating_sub(2);
    let rounded = format!("{number:.digits_after$e}");
    let text = if rounded.parse() == Ok(number) { rounded } else { shortest };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.replace('.', "");
    let point = exponent.parse::<i32>().unwrap_or(0) + 1; // the decimal point stands after so many digits
    let zeros = |count: i32| "0".repeat(count as usize);
    match point {
        1..=21 if digits.len() <= point as usize => format!("{sign}{digits}{}", zeros(point - digits.len() as i32)),
        1..=21 => format!("{sign}{}.{}", &digits[..point as usize], &digits[point as usize..]),
        -5..=0 => format!("{sign}0.{}{digits}", zeros(-point)),
        _ => format!("{sign}{mantissa}e{:+}", point - 1),
    }
}

/// The order of names. That of UTF-8 is by code points; in UTF-16 those above U+FFFF (first byte F0 to F4) come before
/// U+E000 to U+FFFF (first byte EE or EF).
fn utf16_order(one: &str, other: &str) -> Ordering {
    let rank = |byte: u8| if byte == 0xEE || byte == 0xEF { byte + 0x10 } else { byte };
    one.bytes().map(rank).cmp(other.bytes().map(rank))
}

/// The text between the quotes of a string that has been checked.
fn unescape(raw: &str) -> Cow<'_, str> {
    let Some(first) = raw.find('\\') else { return Cow::Borrowed(raw) };
    let mut units: Vec<u16> = raw[..first].encode_utf16().collect();
    let mut rest = &raw[first..];
    while let Some(escape) = rest.strip_prefix('\\') {
        let (unit, size) = match escape.as_bytes()[0] {
            b'b' => (8, 1),
            b'f' => (12, 1),
            b'n' => (10, 1),
            b'r' => (13, 1),
            b't' => (9, 1),
            b'u' => (u16::from_str_radix(&escape[1..5], 16).unwrap_or(0), 5),
            byte => (u16::from(byte), 1),
        };
        units.push(unit);
        let plain = &escape[size..];
        let end = plain.find('\\').unwrap_or(plain.len());
        units.extend(plain[..end].encode_utf16());
        rest = &plain[end..];
    }
    Cow::Owned(String::from_utf16_lossy(&units))
}

impl<'a> Value<'a> {
    /// The bytes as they are stored.
    pub fn raw(self) -> &'a str {
        &self.text[self.start()..self.end()]
    }

    pub fn start(self) -> usize {
        self.nodes[self.at].start as usize
    }

    pub fn end(self) -> usize {
        self.nodes[self.at].end as usize
    }

    fn is(self, first: u8) -> bool {
        self.text.as_bytes()[self.start()] == first
    }

    pub fn is_object(self) -> bool {
        self.is(b'{')
    }

    /// What stands between the quotes of a string, not decoded: enough where an escape is not allowed anyway.
    pub fn inner(self) -> Option<&'a str> {
        self.is(b'"').then(|| &self.text[self.start() + 1..self.end() - 1])
    }

    pub fn string(self) -> Option<Cow<'a, str>> {
        self.inner().map(unescape)
    }

    /// A whole number; the text is canonical, so it has one spelling.
    pub fn integer(self) -> Option<i64> {
        self.raw().parse().ok()
    }

    fn children(self) -> impl Iterator<Item = Value<'a>> {
        let end = self.nodes[self.at].next as usize;
        let mut at = self.at + 1;
        std::iter::from_fn(move || {
            let child = Value { at, ..self };
            (at < end).then(|| {
                at = self.nodes[at].next as usize;
                child
            })
        })
    }

    pub fn items(self) -> Option<impl Iterator<Item = Value<'a>>> {
        self.is(b'[').then(|| self.children())
    }

    /// Names (not decoded) and values of an object; nothing for another value.
    pub fn members(self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let mut children = self.children();
        let object = self.is_object();
        std::iter::from_fn(move || {
            let name = if object { children.next()?.inner()? } else { return None };
            Some((name, children.next()?))
        })
    }

    /// The member `name`, a name that needs no escape.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        self.members().find(|member| member.0 == name).map(|member| member.1)
    }

    /// The object has exactly these members (in canonical order).
    pub fn has_exactly(self, names: &[&str]) -> bool {
        self.is_object() && self.members().map(|member| member.0).eq(names.iter().copied())
    }

    /// All objects in the value, itself included, without recursion.
    pub fn objects(self) -> impl Iterator<Item = Value<'a>> {
        (self.at..self.nodes[self.at].next as usize)
            .map(move |at| Value { at, ..self })
            .filter(|value| value.is_object())
    }
}

/// A string as RFC 8785 prints it.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", char as u32)),
            _ => out.push(char),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &[u8]) -> Option<Code> {
        read(text, &mut Vec::new()).err()
    }

    #[test]
    fn numbers() {
        for good in
            "0 -1 9007199254740991 -9007199254740991 0.1 1e-7 1.5e-7 0.000001 123456.789 5e-324 5.684341886080802e-14"
                .split(' ')
        {
            assert_eq!(code(good.as_bytes()), None, "{good}");
        }
        for other in
            "1.0 1e0 1E5 0.10 1e-07 0.0000001 10e-8 0e0 1e-999 9007199254740990.5 5.6843418860808015e-14".split(' ')
        {
            assert_eq!(code(other.as_bytes()), Some("not-canonical"), "{other}");
        }
        for bad in
            "-0 -0.0 -1e-999 9007199254740992 -9007199254740992 1e999 1e21 01 -01 .5 5. 1e 1e+ +1 - 0x1 NaN".split(' ')
        {
            assert_eq!(code(bad.as_bytes()), Some("bad-json"), "{bad}");
        }
    }

    #[test]
    fn number_forms() {
        for (number, text) in
            [(1e21, "1e+21"), (1e20, "100000000000000000000"), (-1.5e-9, "-1.5e-9"), (1e-6, "0.000001")]
        {
            assert_eq!(number_text(number), text);
        }
    }

    #[test]
    fn strings() {
        for good in [r#""\b\f\n\r\t\"\\\u0000\u001f""#, "\"/\u{7f}\u{2028}\u{10ffff}\""] {
            assert_eq!(code(good.as_bytes()), None, "{good}");
        }
        for other in [r#""\/""#, r#""\u0041""#, r#""\u000a""#, r#""\u001F""#, r#""\ud83d\ude00""#] {
            assert_eq!(code(other.as_bytes()), Some("not-canonical"), "{other}");
        }
        for bad in
            [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#, r#""\ud83d\n""#, r#""\x""#, r#""\u+041""#, "\"a", "\"\t\""]
        {
            assert_eq!(code(bad.as_bytes()), Some("bad-json"), "{bad}");
        }
        for bad in [&b"\"\xc0\x80\""[..], b"\"\xed\xa0\x80\"", b"\"\xf4\x90\x80\x80\"", b"\xef\xbb\xbf0", b"\"\xff\""] {
            assert_eq!(code(bad), Some("bad-json"));
        }
        assert_eq!(unescape(r#"a\u00e9\ud83d\ude00\n\"é"#), "aé😀\n\"é");
        assert_eq!(quote("\"\\\u{8}\u{c}\n\r\t\u{1}é"), r#""\"\\\b\f\n\r\t\u0001é""#);
    }

    #[test]
    fn objects() {
        assert_eq!(code("{\"\u{10000}\":1,\"\u{e000}\":1}".as_bytes()), None);
        assert_eq!(code("{\"\u{e000}\":1,\"\u{10000}\":1}".as_bytes()), Some("not-canonical"));
        assert_eq!(code(br#"{"b":1,"a":1}"#), Some("not-canonical"));
        assert_eq!(code(br#"{"b":1,"a":1,"\u0062":1}"#), Some("bad-json"));
        assert_eq!(code(br#"{"b":1,"a":1,"c":[}"#), Some("bad-json"));
        assert_eq!(code(br#"{"a":1,}"#), Some("bad-json"));
        assert_eq!(code(b"[1 ,2]"), Some("not-canonical"));
        assert_eq!(code(b"{} {}"), Some("bad-json"));
        let nested = |levels: usize| [b"[".repeat(levels), b"]".repeat(levels)].concat();
        assert_eq!(code(&nested(64)), None);
        assert_eq!(code(&nested(65)), Some("bad-json"));
        assert_eq!(code(&b"[".repeat(1 << 20)), Some("bad-json"));
    }

    /// Prints a value from its nodes, sorted and spelled anew.
    fn print(value: Value) -> String {
        if let Some(text) = value.string() {
            return quote(&text);
        }
        if let Some(items) = value.items() {
            return format!("[{}]", items.map(print).collect::<Vec<_>>().join(","));
        }
        if value.is_object() {
            let mut members: Vec<(Cow<str>, Value)> =
                value.members().map(|(name, value)| (unescape(name), value)).collect();
            members.sort_by(|one, other| one.0.encode_utf16().cmp(other.0.encode_utf16()));
            let members: Vec<_> = members.iter().map(|(name, value)| quote(name) + ":" + &print(*value)).collect();
            return format!("{{{}}}", members.join(","));
        }
        value.raw().parse().map_or(value.raw().to_string(), number_text)
    }

    #[test]
    fn what_is_accepted_prints_as_itself() {
        let seeds: [&[u8]; 3] = [
            br#"{"a":[1,-2.5e-9,{"b":{}}],"c":"\u0001\n\\","d":[true,false,null]}"#,
            "{\"\":0.1,\"é\":\"x\",\"\u{10000}\":[[]],\"\u{e000}\":\"😀\"}".as_bytes(),
            b"[0,1e-7,123456789012345,9007199254740991,\"abcdefghijklmnopqrstuvwxyz\"]",
        ];
        let mut accepted = 0;
        for text in crate::tests::mutations(&seeds, 60_000) {
            let mut nodes = Vec::new();
            if let Ok(value) = read(&text, &mut nodes) {
                assert_eq!(print(value).as_bytes(), text);
                accepted += 1;
            }
        }
        assert!(accepted > 1000);
    }
}
