use std::fs;
use std::path::PathBuf;

use super::*;

struct Bench {
    home: PathBuf,
    project: ProjectPaths,
}

impl Bench {
    fn new() -> Self {
        let home = std::env::temp_dir().join(format!("lite-agent-transcript-{}", uuid::Uuid::new_v4()));
        Self { project: ProjectPaths::new(home.clone(), &home), home }
    }

    fn transcript(&self, id: &str) -> Transcript {
        Transcript::new(Some(&self.project), &SessionName::of(id).unwrap(), id.into())
    }

    fn path(&self, id: &str) -> PathBuf {
        let project = fs::read_dir(self.home.join("projects")).unwrap().next().unwrap().unwrap().path();
        project.join("sessions").join(SessionName::of(id).unwrap().transcript())
    }

    /// A transcript of the messages `{"n":0}`, `{"n":1}`, ….
    async fn written(&self, id: &str, count: usize) -> PathBuf {
        let mut transcript = self.transcript(id);
        transcript.open(0).await.unwrap();
        let messages: Vec<_> = (0..count).map(message).collect();
        transcript.append(&messages).await.unwrap();
        transcript.close().await.unwrap();
        self.path(id)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.home);
    }
}

fn message(n: usize) -> Arc<RawValue> {
    Arc::from(RawValue::from_string(format!("{{\"n\":{n}}}")).unwrap())
}

fn texts(found: &Found) -> Vec<&str> {
    found.messages.iter().map(|message| message.get()).collect()
}

#[tokio::test]
async fn what_is_appended_is_read_back_as_it_was() {
    let bench = Bench::new();
    let mut transcript = bench.transcript("s");
    assert!(!bench.home.exists(), "nothing is made before it is opened");
    assert!(transcript.open(0).await.unwrap().messages.is_empty());
    let odd = RawValue::from_string(
        "{ \"digits\": 1.10,\r\n\"big\": 12345678901234567890123, \"text\": \"\\n 漢😀\" }".into(),
    );
    transcript.append(&[Arc::from(odd.unwrap())]).await.unwrap();
    let long = format!("{{\"text\":\"{}\"}}", "漢".repeat(100_000));
    transcript.append(&[Arc::from(RawValue::from_string(long.clone()).unwrap()), message(2)]).await.unwrap();
    let text = fs::read_to_string(bench.path("s")).unwrap();
    assert_eq!(text.lines().next().unwrap(), r#"{"type":"session","version":1,"id":"s"}"#);
    assert_eq!(text.lines().count(), 4);
    transcript.close().await.unwrap();

    let found = bench.transcript("s").open(0).await.unwrap();
    let odd = "{ \"digits\": 1.10,  \"big\": 12345678901234567890123, \"text\": \"\\n 漢😀\" }";
    assert_eq!(texts(&found), [odd, &*long, "{\"n\":2}"]);
    assert!(!found.is_torn);
}

#[tokio::test]
async fn what_others_added_is_found_and_what_others_run_is_busy() {
    let bench = Bench::new();
    let (mut mine, mut theirs) = (bench.transcript("s"), bench.transcript("s"));
    mine.open(0).await.unwrap();
    mine.append(&[message(0)]).await.unwrap();
    #[cfg(unix)]
    assert!(matches!(theirs.open(0).await, Err(TranscriptError::Busy)));
    #[cfg(unix)]
    assert!(matches!(bench.transcript("s").remove().await, Err(TranscriptError::Busy)));
    mine.close().await.unwrap();
    assert_eq!(texts(&theirs.open(0).await.unwrap()), ["{\"n\":0}"]);
    theirs.append(&[message(1), message(2)]).await.unwrap();
    theirs.close().await.unwrap();
    assert_eq!(texts(&mine.open(1).await.unwrap()), ["{\"n\":1}", "{\"n\":2}"]);
    mine.close().await.unwrap();
    assert!(mine.open(3).await.unwrap().messages.is_empty());
}

#[tokio::test]
async fn a_torn_last_line_is_dropped_wherever_it_ends() {
    let bench = Bench::new();
    let path = bench.written("s", 2).await;
    let whole = fs::read(&path).unwrap();
    let header = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for end in 0..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let mut transcript = bench.transcript("s");
        let found = transcript.open(0).await.unwrap();
        let ended = whole[..end].split(|byte| *byte == b'\n').count() - 1;
        assert_eq!(found.messages.len(), ended.saturating_sub(1), "{end}");
        assert_eq!(found.is_torn, end > 0 && whole[end - 1] != b'\n', "{end}");
        transcript.append(&[message(7)]).await.unwrap();
        transcript.close().await.unwrap();
        let mended = bench.transcript("s").open(0).await.unwrap();
        assert_eq!(mended.messages.len(), ended.saturating_sub(1) + 1, "{end}");
        assert!(fs::read(&path).unwrap().starts_with(&whole[..header]));
    }
}

#[tokio::test]
async fn any_other_damage_is_an_error_that_names_the_line_and_changes_nothing() {
    let bench = Bench::new();
    let path = bench.written("s", 2).await;
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let broken = |replaced: usize, by: &str| {
        let mut lines = lines.clone();
        lines[replaced] = by;
        lines.join("\n") + "\n"
    };
    let cases = [
        (broken(1, "secret"), "line 2 "),
        (broken(2, "secret"), "line 3 "),
        (broken(1, ""), "line 2 "),
        (broken(1, r#"{"type":"message"}"#), "line 2 "),
        (broken(1, r#"{"type":"message","message":7}"#), "line 2 "),
        (broken(1, r#"{"type":"other","message":{}}"#), "line 2 "),
        (broken(1, lines[0]), "line 2 "),
        (broken(0, lines[1]), "line 1 "),
        (broken(0, r#"{"type":"session","version":2,"id":"s"}"#), "not one of this session and version"),
        (broken(0, r#"{"type":"session","version":1,"id":"S"}"#), "not one of this session and version"),
    ];
    for (text, told) in cases {
        // A torn end does not hide it.
        let text = text + "{\"type\":";
        fs::write(&path, &text).unwrap();
        let error = bench.transcript("s").open(0).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Storage);
        assert!(error.to_string().contains(told) && !error.to_string().contains("secret"), "{error} {text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[tokio::test]
async fn one_that_went_away_or_became_shorter_is_not_written_anew() {
    let bench = Bench::new();
    let mut transcript = bench.transcript("s");
    transcript.open(0).await.unwrap();
    transcript.append(&[message(0), message(1)]).await.unwrap();
    transcript.close().await.unwrap();
    let path = bench.path("s");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    assert!(matches!(transcript.open(2).await, Err(TranscriptError::Changed)));
    fs::remove_file(&path).unwrap();
    assert!(matches!(transcript.open(2).await, Err(TranscriptError::Changed)));
    assert!(!path.exists());
    transcript.remove().await.unwrap();
    assert!(transcript.open(0).await.unwrap().messages.is_empty(), "removed on purpose, it begins anew");
}

#[tokio::test]
async fn one_that_is_too_long_is_neither_read_nor_written() {
    let bench = Bench::new();
    let path = bench.written("s", 1).await;
    fs::File::options().write(true).open(&path).unwrap().set_len(TRANSCRIPT_BYTES + 1).unwrap();
    assert!(matches!(bench.transcript("s").open(0).await, Err(TranscriptError::TooLong)));

    let mut transcript = bench.transcript("t");
    transcript.open(0).await.unwrap();
    let before = fs::metadata(bench.path("t")).unwrap().len();
    let huge = Arc::from(RawValue::from_string(format!("\"{}\"", "x".repeat(9 * 1024 * 1024))).unwrap());
    let error = transcript.append(&vec![huge; 15]).await.unwrap_err();
    assert!(error.to_string().contains("above the limit of 134217728 bytes"), "{error}");
    assert_eq!(fs::metadata(bench.path("t")).unwrap().len(), before);
    transcript.append(&[message(0)]).await.unwrap();
}

#[tokio::test]
async fn sessions_are_listed_newest_first() {
    let bench = Bench::new();
    assert_eq!(list(Some(&bench.project)).await.unwrap(), []);
    assert!(matches!(list(None).await, Err(TranscriptError::NoHome)));
    for (id, at) in [("middle", 2_000), ("../old", 1_000), ("new", 3_000)] {
        let path = bench.written(id, 1).await;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(at);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    fs::write(bench.path("x").with_file_name("not ours.jsonl"), "").unwrap();
    fs::create_dir(bench.path("folder")).unwrap();
    let stored = |id: &str, mtime| StoredSession { id: id.into(), mtime };
    let listed = list(Some(&bench.project)).await.unwrap();
    assert_eq!(listed, [stored("new", 3_000), stored("middle", 2_000), stored("../old", 1_000)]);
    bench.transcript("new").remove().await.unwrap();
    bench.transcript("new").remove().await.unwrap();
    assert_eq!(list(Some(&bench.project)).await.unwrap().len(), 2);
}
