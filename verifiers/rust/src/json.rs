//! Strict JSON (section 6, rows 2 and 3): one pass over the bytes checks RFC 8259 and I-JSON, and notes on the way whether
//! the text is what RFC 8785 prints. It must go on after something that is not canonical: `bad-json` further on wins.

use crate::base::{Code, must};
use std::borrow::Cow;

const MAX_DEPTH: usize = 64;
const NUMBER_BOUND: f64 = 9_007_199_254_740_992.0; // 2^53

/// Where a value or a member name stands, and the index of the node after it and all that is in it. (Texts are of 64 MiB at
/// most.)
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
    nodes.clear();
    let mut scanner = Scanner { text, at: 0, nodes, canonical: true };
    scanner.space();
    scanner.value(0).ok_or("bad-json")?;
    scanner.space();
    must(scanner.at == text.len(), "bad-json")?;
    must(scanner.canonical, "not-canonical")?;
    Ok(Value { text, nodes, at: 0 })
}

struct Scanner<'a, 'n> {
    text: &'a str,
    at: usize,
    nodes: &'n mut Vec<Node>,
    canonical: bool,
}

/// Methods give None for what is no JSON, or breaks a rule of row 2.
impl Scanner<'_, '_> {
    fn rest(&self) -> &[u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.rest().first() == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn space(&mut self) {
        while matches!(self.rest(), [b' ' | b'\t' | b'\n' | b'\r', ..]) {
            self.at += 1;
            self.canonical = false;
        }
    }

    /// The limit of depth also bounds the recursion of these functions.
    fn value(&mut self, depth: usize) -> Option<()> {
        let first = *self.rest().first()?;
        let node = self.node(|scanner| match first {
            b'{' | b'[' if depth == MAX_DEPTH => None,
            b'{' => scanner.items(b'}', |scanner| scanner.member(depth + 1)),
            b'[' => scanner.items(b']', |scanner| scanner.value(depth + 1)),
            b'"' => scanner.string(),
            b't' => scanner.word("true"),
            b'f' => scanner.word("false"),
            b'n' => scanner.word("null"),
            _ => scanner.number(),
        })?;
        (first != b'{' || self.names_are_good(node)).then_some(())
    }

    /// The node of what `scan` passes over.
    fn node(&mut self, scan: impl FnOnce(&mut Self) -> Option<()>) -> Option<usize> {
        let node = self.nodes.len();
        self.nodes.push(Node { start: self.at as u32, end: 0, next: 0 });
        scan(self)?;
        (self.nodes[node].end, self.nodes[node].next) = (self.at as u32, self.nodes.len() as u32);
        Some(node)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.rest().starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    /// A mark of punctuation, with the space around it.
    fn mark(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.take(byte);
        self.space();
        found
    }

    /// What stands between brackets.
    fn items(&mut self, end: u8, item: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        let mut more = !self.mark(end);
        while more {
            item(self)?;
            more = self.mark(b',');
            (more || self.mark(end)).then_some(())?;
        }
        Some(())
    }

    fn member(&mut self, depth: usize) -> Option<()> {
        self.node(Self::string)?;
        self.mark(b':').then_some(())?;
        self.value(depth)
    }

    /// The names of an object do not repeat. Also notes whether they ascend: if so, they cannot.
    fn names_are_good(&mut self, object: usize) -> bool {
        let object = Value { text: self.text, nodes: self.nodes, at: object };
        let names = || object.members().map(|(name, _)| unescape(name));
        if names().is_sorted_by(|one, next| one.encode_utf16().lt(next.encode_utf16())) {
            return true;
        }
        let mut names: Vec<_> = names().collect();
        self.canonical = false;
        names.sort_unstable();
        names.is_sorted_by(|one, next| one < next)
    }

    fn string(&mut self) -> Option<()> {
        self.take(b'"').then_some(())?;
        loop {
            self.at += self.rest().iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
            match self.rest()[0] {
                b'\\' => self.escape()?,
                end => return (end == b'"').then(|| self.at += 1),
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        let letter = *self.rest().get(1)?;
        if letter != b'u' {
            self.canonical &= letter != b'/';
            self.at += 2;
            return (letter == b'/' || LETTERS.contains(letter as char)).then_some(());
        }
        let unit = self.unit()?;
        // Only control characters without an escape of their own are written so, in lower case.
        let digits = &self.text.as_bytes()[self.at - 4..self.at];
        let is_needed = unit < 0x20 && !ESCAPED.as_bytes().contains(&(unit as u8));
        self.canonical &= is_needed && !digits.iter().any(u8::is_ascii_uppercase);
        let is_low = |unit| (0xDC00..0xE000).contains(&unit);
        let is_right = if (0xD800..0xDC00).contains(&unit) { is_low(self.unit()?) } else { !is_low(unit) };
        is_right.then_some(())
    }

    /// The four digits of a `\uXXXX`.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.rest().get(..6)?.strip_prefix(b"\\u")?;
        let unit = digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + (digit as char).to_digit(16)?));
        self.at += 6;
        unit
    }

    fn digits(&mut self) -> Option<usize> {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(count)
    }

    fn number(&mut self) -> Option<()> {
        let from = self.at;
        self.take(b'-');
        let zero = self.rest().first() == Some(&b'0');
        (self.digits()? == 1 || !zero).then_some(())?;
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        let text = &self.text[from..self.at];
        let number: f64 = text.parse().ok()?;
        // What is too big for a double has become an infinity. `-1e-999` has become minus zero.
        (number.abs() < NUMBER_BOUND && (number != 0.0 || number.is_sign_positive())).then_some(())?;
        // As ECMAScript prints it (RFC 8785 section 3.2.2.3).
        self.canonical &= ryu_js::Buffer::new().format_finite(number) == text;
        Some(())
    }
}

/// Characters that have an escape of one letter, and the letters.
const ESCAPED: &str = "\u{8}\u{c}\n\r\t\"\\";
const LETTERS: &str = "bfnrt\"\\";

/// The text between the quotes of a string that has been checked.
pub fn unescape(raw: &str) -> Cow<'_, str> {
    let mut units = Vec::new();
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        let letter = escape.as_bytes()[0];
        let (unit, size) = match LETTERS.find(letter as char) {
            _ if letter == b'u' => (u16::from_str_radix(&escape[1..5], 16).unwrap_or(0), 5),
            Some(place) => (ESCAPED.as_bytes()[place].into(), 1),
            None => (letter.into(), 1),
        };
        units.extend(plain.encode_utf16().chain([unit]));
        rest = &escape[size..];
    }
    if units.is_empty() {
        return Cow::Borrowed(raw);
    }
    units.extend(rest.encode_utf16());
    Cow::Owned(String::from_utf16_lossy(&units))
}

/// A string as RFC 8785 prints it.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match ESCAPED.find(char) {
            Some(place) => out.extend(["\\", &LETTERS[place..=place]]),
            None if char < ' ' => out += &format!("\\u{:04x}", char as u32),
            None => out.push(char),
        }
    }
    out + "\""
}

impl<'a> Value<'a> {
    /// The bytes as they are stored.
    pub fn raw(self) -> &'a str {
        let node = self.nodes[self.at];
        &self.text[node.start as usize..node.end as usize]
    }

    pub fn is_object(self) -> bool {
        self.raw().starts_with('{')
    }

    /// What stands between the quotes of a string, not decoded: enough where an escape is not allowed anyway.
    pub fn inner(self) -> Option<&'a str> {
        self.raw().strip_prefix('"')?.strip_suffix('"')
    }

    pub fn string(self) -> Option<Cow<'a, str>> {
        self.inner().map(unescape)
    }

    /// A whole number; the text is canonical, so it has one spelling.
    pub fn integer(self) -> Option<i64> {
        self.raw().parse().ok()
    }

    fn children(self) -> impl Iterator<Item = Value<'a>> {
        let child = move |at: usize| Some(Value { at, ..self }).filter(|_| at < self.nodes[self.at].next as usize);
        std::iter::successors(child(self.at + 1), move |last| child(self.nodes[last.at].next as usize))
    }

    pub fn items(self) -> Option<impl Iterator<Item = Value<'a>>> {
        self.raw().starts_with('[').then(|| self.children())
    }

    /// Names (not decoded) and values of an object; nothing for another value.
    pub fn members(self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let (is_object, mut children) = (self.is_object(), self.children());
        std::iter::from_fn(move || Some((children.next().filter(|_| is_object)?.inner()?, children.next()?)))
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
        let all = self.at..self.nodes[self.at].next as usize;
        all.map(move |at| Value { at, ..self }).filter(|value| value.is_object())
    }
}
