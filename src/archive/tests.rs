use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::context::{ContextError, TurnBudget, answer, check};
use super::*;

struct Bench {
    home: PathBuf,
    place: Place,
}

impl Bench {
    fn new() -> Self {
        let home = std::env::temp_dir().join(format!("lite-agent-archive-{}", uuid::Uuid::new_v4()));
        Self { place: Place::new(home.clone(), vec!["s.context".into()]), home }
    }

    fn archive(&self) -> Arc<Archive> {
        Archive::unsaved(Some(self.place.clone()))
    }

    fn session_folder(&self) -> PathBuf {
        self.home.join("s.context")
    }

    /// The folder of the one archive that is there.
    fn folder(&self) -> PathBuf {
        fs::read_dir(self.session_folder()).unwrap().next().unwrap().unwrap().path()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.home);
    }
}

fn origin() -> Origin {
    Origin { tool: "big".into(), preview: |text| text.chars().take(10).collect() }
}

async fn ask(archive: &Arc<Archive>, input: serde_json::Value) -> Result<String, ContextError> {
    answer(archive, &input, &mut TurnBudget::default(), 1).await
}

fn data(answer: &str) -> String {
    let inner = answer.split_once("<archived-data>\n").unwrap().1.split_once("\n</archived-data>").unwrap().0;
    inner.replace("&lt;", "<").replace("&amp;", "&")
}

#[tokio::test]
async fn a_text_is_kept_under_its_digest_with_a_line_in_the_index() {
    let bench = Bench::new();
    let archive = bench.archive();
    assert!(!bench.home.exists(), "nothing is made before it is needed");
    let entry = archive.put("😀 text of a tool".into(), origin()).await.unwrap();
    let again = archive.put("😀 text of a tool".into(), Origin { tool: "other".into(), ..origin() }).await.unwrap();
    assert!(Arc::ptr_eq(&entry, &again));
    assert_eq!(entry.reference.as_str(), sha256_hex("😀 text of a tool".as_bytes()));
    let index = fs::read_to_string(bench.folder().join(INDEX)).unwrap();
    let lines: Vec<serde_json::Value> = index.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = json!({ "ref": entry.reference, "tool": "big", "bytes": 19, "chars": 17, "preview": "😀 text of " });
    assert_eq!(lines, [line]);
    assert_eq!(fs::read_to_string(bench.folder().join(entry.reference.as_str())).unwrap(), "😀 text of a tool");
}

#[tokio::test]
async fn closing_removes_what_is_kept_and_ends_the_archive() {
    let bench = Bench::new();
    let (archive, namesake) = (bench.archive(), bench.archive());
    let entry = archive.put("one".into(), origin()).await.unwrap();
    namesake.put("one".into(), origin()).await.unwrap();
    archive.close().await.unwrap();
    archive.close().await.unwrap();
    assert!(matches!(archive.put("two".into(), origin()).await, Err(ArchiveError::Closed)));
    assert!(matches!(ask(&archive, json!({ "ref": entry.reference })).await, Err(ContextError::Archive(_))));

    let read = ask(&namesake, json!({ "ref": entry.reference })).await.unwrap();
    assert_eq!(data(&read), "one", "another agent's session of the same id is another session");
    namesake.close().await.unwrap();
    assert!(bench.home.exists() && !bench.session_folder().exists());
}

#[tokio::test]
async fn a_saved_archive_is_there_for_the_next_agent_until_it_is_removed() {
    let bench = Bench::new();
    let archive = Archive::saved(Some(bench.place.clone()));
    archive.load().await.unwrap();
    assert!(archive.is_empty() && !bench.home.exists());
    let one = archive.put("one 漢".into(), origin()).await.unwrap();
    archive.close().await.unwrap();
    assert!(matches!(archive.put("two".into(), origin()).await, Err(ArchiveError::Closed)));

    let index = bench.session_folder().join(INDEX);
    let torn = fs::read_to_string(&index).unwrap() + "{\"ref\":\"";
    fs::write(&index, torn).unwrap();
    let later = Archive::saved(Some(bench.place.clone()));
    later.load().await.unwrap();
    assert_eq!(later.entries(), std::slice::from_ref(&one));
    let two = later.put("two".into(), origin()).await.unwrap();
    let three = later.put("three".into(), origin()).await.unwrap();
    let last = Archive::saved(Some(bench.place.clone()));
    last.load().await.unwrap();
    assert_eq!(last.entries(), [three, two, one.clone()]);
    assert_eq!(data(&ask(&last, json!({ "ref": one.reference })).await.unwrap()), "one 漢");

    fs::write(&index, fs::read_to_string(&index).unwrap().replace("\"chars\":5", "\"chars\":99")).unwrap();
    last.load().await.unwrap();
    let read = ask(&last, json!({ "ref": one.reference })).await.unwrap();
    assert_eq!(read.lines().next(), Some("offset=0; nextOffset=end; totalChars=5"));

    last.remove().await.unwrap();
    assert!(last.is_empty() && !bench.session_folder().exists());
    last.put("anew".into(), origin()).await.unwrap();
    assert!(bench.session_folder().join(INDEX).exists());
}

#[tokio::test]
async fn a_reference_works_in_its_own_session_only() {
    let bench = Bench::new();
    let (archive, namesake) = (bench.archive(), bench.archive());
    let entry = archive.put("one".into(), origin()).await.unwrap();
    let error = ask(&namesake, json!({ "ref": entry.reference })).await.unwrap_err();
    assert!(matches!(error, ContextError::Archive(ArchiveError::Unknown)));
    assert_eq!(error.code(), ErrorCode::Tool);
}

#[tokio::test]
async fn what_was_changed_on_the_disk_is_not_used() {
    let bench = Bench::new();
    let archive = bench.archive();
    let entry = archive.put("honest".into(), origin()).await.unwrap();
    let path = bench.folder().join(entry.reference.as_str());
    for (planted, told) in [(Some("forged"), "was changed on the disk"), (None, "could not be read")] {
        match planted {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let error = ask(&archive, json!({ "ref": entry.reference })).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Storage);
        assert!(error.to_string().contains(told) && !error.to_string().contains("s.context"), "{error}");
        assert_eq!(ask(&archive, json!({ "query": "honest" })).await.unwrap(), "hits=0; unreadable=1");
    }
    archive.put("honest".into(), origin()).await.unwrap();
    assert_eq!(data(&ask(&archive, json!({ "ref": entry.reference })).await.unwrap()), "honest");
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_a_storage_error() {
    let bench = Bench::new();
    fs::create_dir_all(&bench.home).unwrap();
    fs::write(bench.session_folder(), "a file").unwrap();
    let error = bench.archive().put("text".into(), origin()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Storage);
    let error = Archive::unsaved(None).put("text".into(), origin()).await.unwrap_err();
    assert!(matches!(error, ArchiveError::NoHome));
}

#[tokio::test]
async fn a_page_has_its_numbers_in_the_first_line_and_its_text_in_an_envelope() {
    let bench = Bench::new();
    let archive = bench.archive();
    let text = format!("</archived-data> & {}", "x".repeat(20_000));
    let entry = archive.put(text.clone(), origin()).await.unwrap();
    let first = ask(&archive, json!({ "ref": entry.reference, "limit": 19 })).await.unwrap();
    let mut lines = first.lines();
    assert_eq!(lines.next(), Some("offset=0; nextOffset=19; totalChars=20019"));
    assert_eq!(lines.next(), Some(envelope::NOTE));
    assert_eq!(data(&first), text[..19]);
    let last = ask(&archive, json!({ "ref": entry.reference, "offset": 20_000.0 })).await.unwrap();
    assert_eq!(last.lines().next(), Some("offset=20000; nextOffset=end; totalChars=20019"));
    assert_eq!(data(&last), text[20_000..]);
    let error = ask(&archive, json!({ "ref": entry.reference, "offset": 20_020 })).await.unwrap_err();
    assert_eq!(error.to_string(), "`offset` 20020 is past the end of the text, which has 20019 characters");
}

#[tokio::test]
async fn a_turn_has_a_budget_and_the_next_turn_a_new_one() {
    let bench = Bench::new();
    let archive = bench.archive();
    let text = "漢".repeat(20_000);
    let entry = archive.put(text.clone(), origin()).await.unwrap();
    let mut budget = TurnBudget::default();
    let whole = json!({ "ref": entry.reference });
    let read = answer(&archive, &whole, &mut budget, 1).await.unwrap();
    assert_eq!(read.lines().next(), Some("offset=0; nextOffset=5461; totalChars=20000"));
    let error = answer(&archive, &whole, &mut budget, 1).await.unwrap_err();
    assert!(error.to_string().contains("16384 bytes of archived text a turn"), "{error}");
    assert!(answer(&archive, &json!({ "query": "漢" }), &mut budget, 1).await.is_err());
    assert_eq!(answer(&archive, &whole, &mut budget, 2).await.unwrap(), read);
}

#[tokio::test]
async fn a_search_shows_the_newest_results_first_and_at_most_five() {
    let bench = Bench::new();
    let archive = bench.archive();
    let mut references = Vec::new();
    for number in 0..7 {
        let text = format!("😀 Number {number}: a Needle, and a needle");
        references.push(archive.put(text, origin()).await.unwrap().reference.clone());
    }
    let found = ask(&archive, json!({ "query": "NEEDLE" })).await.unwrap();
    let refs: Vec<&str> = found.lines().filter(|line| line.starts_with("ref=")).collect();
    let expected: Vec<String> = references
        .iter()
        .rev()
        .take(5)
        .map(|reference| format!("ref={reference}; offset=15; totalChars=35; tool=big"))
        .collect();
    assert_eq!((found.lines().next(), refs), (Some("hits=5"), expected.iter().map(String::as_str).collect()));

    let one = ask(&archive, json!({ "query": "needle", "ref": references[0], "offset": 16 })).await.unwrap();
    assert!(one.starts_with("hits=1\n") && one.contains("; offset=29;"), "{one}");
    assert_eq!(ask(&archive, json!({ "query": "absent" })).await.unwrap(), "hits=0");
    let listed = ask(&archive, json!({})).await.unwrap();
    assert!(listed.starts_with("results=7\n") && listed.contains("😀 Number 6"), "{listed}");
}

#[test]
fn the_input_is_checked() {
    for good in [json!({}), json!({ "query": "x" }), json!({ "ref": "a".repeat(64), "offset": 0, "limit": 16_000 })] {
        assert_eq!(check(&good), Ok(()), "{good}");
    }
    let bad = [
        json!({ "ref": "../../etc/passwd" }),
        json!({ "ref": "a".repeat(63) }),
        json!({ "offset": -1 }),
        json!({ "offset": 1.5 }),
        json!({ "limit": 0 }),
        json!({ "limit": 16_001 }),
        json!({ "query": "" }),
        json!({ "query": "x".repeat(257) }),
        json!({ "path": "x" }),
        json!("x"),
    ];
    for input in bad {
        assert!(check(&input).is_err(), "{input}");
    }
}
