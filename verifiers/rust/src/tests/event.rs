use crate::base::Code;
use crate::event::{Event, encode, is_part, timestamp};

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
        assert!(is_part(part));
    }
    for bad in ["", "a b", "%61", "%c3%a9", "%C3", "%", "%4", "%0A", ".a", "a.lock", &"a".repeat(201)] {
        assert!(!is_part(bad), "{bad}");
    }
}
