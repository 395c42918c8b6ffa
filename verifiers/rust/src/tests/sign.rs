use crate::base::{base64, unbase64};
use crate::sign::{Trust, is_allowed, matches, read_key, read_lines, read_signer};

#[test]
fn base64_has_one_spelling() {
    for (bytes, text) in [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"\xfb\xff", "+/8=")] {
        assert_eq!(base64(bytes), text);
        assert_eq!(unbase64(text).as_deref(), Some(bytes));
    }
    for bad in ["Zg", "Zg=", "Zh==", "Zg==\n", "Z", "=", "Zm9v====", "Zg==Zg==", "Zm 9v", "-_8="] {
        assert_eq!(unbase64(bad), None, "{bad}");
    }
}

#[test]
fn patterns() {
    assert!(
        is_allowed("git", "git") && is_allowed("git", "x,g*") && is_allowed("git", "*") && is_allowed("git", "?i?")
    );
    assert!(
        !is_allowed("git", "gi") && !is_allowed("git", "") && !is_allowed("git", "*,!git") && !is_allowed("git", "!x")
    );
    // Takes no time to speak of.
    assert!(!is_allowed("git", &format!("{}x", "*".repeat(10_000))));
    assert!(!matches("a".repeat(10_000).as_bytes(), format!("{}b", "*a".repeat(1_000)).as_bytes()));
}

#[test]
fn signer_lines() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    let accepts = |options: &str, time| {
        let signers = read_lines(&format!("# c\n\n \t{options} {key} a comment\r\n"), read_signer);
        signers.map(|signers| {
            let blob = read_key(key).unwrap();
            let trust = Trust { signers: Some(signers), revoked: Vec::new() };
            trust.accepts(&blob, "git", time).map(|found| found.1.principals.clone())
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
    assert!(read_lines("me ssh-ed25519\n", read_signer).is_none());
    assert!(read_lines("me ssh-ed25519 AAAA", read_key).is_none());
    assert_eq!(read_lines(&format!("{key}\n"), read_key).map(|keys| keys.len()), Some(1));
}
