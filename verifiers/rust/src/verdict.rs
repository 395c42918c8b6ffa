//! The verdict (section 3): one line of canonical JSON.

use crate::base::hex;
use crate::json::quote;
use crate::line::Line;

/// Section 11.
const TEXTS: [(&str, &str); 22] = [
    ("bad-commit", "a commit is not in its form, or says something else than its event"),
    ("bad-epoch", "epoch is below 1, or falls"),
    ("bad-file", "a side file is not what the event says, or their number differs"),
    ("bad-fork", "a start, branch or fork does not stand or come from where it says"),
    ("bad-hash", "a commit names another event hash than its event has"),
    ("bad-json", "the bytes are not JSON, or break a rule that all JSON here keeps"),
    ("bad-member", "a member is missing, unknown, too big or breaks its rule"),
    ("bad-object", "an object cannot be read, or its content does not have its id"),
    ("bad-seal", "a seal or proof does not agree with the events"),
    ("bad-seq", "seq is out of range, or not one more than the event before"),
    ("bad-session", "session changes without a fork"),
    ("bad-signature", "a signature is wrong, of another namespace or key, or missing"),
    ("bad-tree", "a tree is malformed, or a commit is not the one that the events derive"),
    ("bad-version", "the version is not 1"),
    ("broken-link", "prev is not the hash of the event before"),
    ("equivocation", "two lines of a session go apart and neither says so"),
    ("missing-object", "an object that must be there is not"),
    ("not-canonical", "JSON, but not in canonical form"),
    ("rollback", "another event stands where the expected head was"),
    ("truncated", "the line ends before the expected head, or in the middle of an event"),
    ("unknown-signer", "a right signature of a key that the allowed signers do not accept"),
    ("wrong-ref", "the ref is not one of this line, or holds no commit id"),
];

/// The verdict and the exit status.
pub fn print(input: &str, lines: &[Line], foreign: u64, expected: bool, has_signers: bool) -> (String, u8) {
    let (unchecked, incomplete) = unchecked(input, lines, foreign, expected, has_signers);
    let (word, status) = match (lines.iter().any(|line| !line.findings.is_empty()), incomplete) {
        (true, _) => ("broken", 1),
        (_, true) => ("incomplete", 3),
        _ => ("ok", 0),
    };
    let lines = array(lines.iter().map(print_line));
    let unchecked = array(unchecked.iter().map(|text| quote(text)));
    let text = format!(
        "{{\"input\":\"{input}\",\"lines\":{lines},\"unchecked\":{unchecked},\"verdict\":\"{word}\",\"version\":1}}\n"
    );
    (text, status)
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn or_null(text: Option<String>) -> String {
    text.map_or("null".to_string(), |text| quote(&text))
}

fn print_line(line: &Line) -> String {
    let findings = array(line.findings.iter().map(|(seq, code, id)| {
        let seq = seq.map_or("null".to_string(), |seq| seq.to_string());
        let text = TEXTS.iter().find(|text| text.0 == *code).map_or("", |text| text.1);
        format!(r#"{{"code":"{code}","id":{},"seq":{seq},"text":"{text}"}}"#, quote(id))
    }));
    let signers = array(line.signers.iter().map(|(key, (count, first))| {
        let principals = or_null(first.as_ref().map(|first| first.1.clone()));
        format!(r#"{{"key":"{key}","principals":{principals},"signatures":{count}}}"#)
    }));
    let withheld = array(line.withheld.iter().map(|(from, to)| format!("[{from},{to}]")));
    let commit = or_null(line.commit.map(|id| hex(&id)));
    let hash = or_null(line.hash_at(line.head).map(|hash| hex(hash)));
    let name = or_null(line.name.clone());
    let Line { head, seals, side_files, signatures, signed_to, .. } = line;
    [
        format!(r#"{{"findings":{findings},"head":{{"commit":{commit},"hash":{hash},"seq":{head}}},"name":{name}"#),
        format!(r#""seals":{seals},"side_files":{side_files},"signatures":{signatures},"signed_to":{signed_to}"#),
        format!(r#""signers":{signers},"withheld":{withheld}}}"#),
    ]
    .join(",")
}

/// Section 10: the texts, and whether one of them makes the check incomplete.
fn unchecked(input: &str, lines: &[Line], foreign: u64, expected: bool, has_signers: bool) -> (Vec<String>, bool) {
    let sum = |number: fn(&Line) -> u64| lines.iter().map(number).sum::<u64>();
    let signatures = sum(|line| line.signatures);
    let not_checked = sum(|line| line.not_checked);
    let withheld = sum(|line| line.withheld.iter().map(|(from, to)| to - from + 1).sum());
    let left_out = sum(|line| line.left_out);
    let behind = has_signers && lines.iter().any(|line| line.signed_to < line.head);
    let not_seen = match input {
        "git" => "events that are not yet in git: the tail of a live journal",
        "jsonl" => "commits, trees and refs: an export has none",
        _ => "all other events: a proof shows what it names",
    };
    let clocks = "when it was signed: an accepted key has an end, and the time is the signer's word";
    let rows = [
        (true, false, not_seen.to_string()),
        (!expected, false, "whether newer events were cut off: no head was expected".to_string()),
        (signatures == 0, false, "who wrote the events: nothing is signed".to_string()),
        (signatures > 0 && !has_signers, true, "whose keys signed: no allowed signers were given".to_string()),
        (not_checked > 0, true, format!("signatures of a kind that is not checked here: {not_checked}")),
        (lines.iter().any(|line| line.clocks), false, clocks.to_string()),
        (behind, false, "events after the last accepted signature".to_string()),
        (withheld > 0, false, format!("the payloads of withheld events: {withheld}")),
        (left_out > 0, true, format!("commits that a shallow history leaves out: {left_out}")),
        (foreign > 0, false, format!("refs that are no line of a journal: {foreign}")),
        (lines.iter().any(Line::is_full), true, "what comes after 1000 findings in a line".to_string()),
    ];
    let incomplete = rows.iter().any(|row| row.0 && row.1);
    (rows.into_iter().filter(|row| row.0).map(|row| row.2).collect(), incomplete)
}
