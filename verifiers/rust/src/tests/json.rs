use crate::base::Code;
use crate::json::{Value, quote, read, unescape};
use std::borrow::Cow;

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
    for (number, text) in [(1e21, "1e+21"), (1e20, "100000000000000000000"), (-1.5e-9, "-1.5e-9"), (1e-6, "0.000001")] {
        assert_eq!(number_text(number), text);
    }
    // The library prints as this does, also numbers of which two texts are equally near (powers of two).
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state ^ state >> 29
    };
    let powers = (-1074..1024).map(|power| 2f64.powi(power / 2) * 2f64.powi(power - power / 2));
    let randoms = (0..300_000).map(|_| f64::from_bits(random()));
    for number in powers.chain(randoms).filter(|number| number.is_finite()) {
        assert_eq!(number_text(number), ryu_js::Buffer::new().format(number));
    }
}

/// A finite number as ECMAScript prints it (RFC 8785 section 3.2.2.3), by the digits of the standard library.
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
