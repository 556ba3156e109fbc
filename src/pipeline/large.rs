//! What becomes of a result that is too large for the model, or that holds what no model reads as text: it goes to the
//! session's archive, and the model gets a short text in its place.

use super::event::CallEvent;
use super::{Pipeline, ToolOutcome};
use crate::archive::envelope::{NOTE, sealed};
use crate::archive::{ArchiveError, Entry, Origin, context};
use crate::base::limits::{ARCHIVE_PREVIEW_CHARS, ARCHIVE_THRESHOLD};

/// A result as text, before it is known where it goes.
pub(super) struct ResultText {
    /// All of it.
    pub(super) text: String,
    /// Whether it calls itself an error.
    pub(super) is_error: bool,
    /// Whether it is archived whatever its size.
    pub(super) holds_media: bool,
    /// Tells what it holds; not more than [`ARCHIVE_PREVIEW_CHARS`] of it is shown.
    pub(super) preview: fn(&str) -> String,
}

/// The beginning of a text.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(ARCHIVE_PREVIEW_CHARS).collect()
}

impl Pipeline {
    /// The outcome of a call that gave a result of any size.
    pub(super) async fn settle(&self, tool: &str, result: ResultText) -> ToolOutcome {
        let ResultText { text, is_error, holds_media, preview } = result;
        let bytes = text.len();
        if bytes <= ARCHIVE_THRESHOLD && !holds_media {
            return ToolOutcome { content: text, is_error };
        }
        match self.archive.put(text, Origin { tool: tool.to_owned(), preview }).await {
            Ok(entry) => ToolOutcome { content: self.notice(tool, &entry), is_error },
            Err(error) => {
                self.tell_of(tool, &error).await;
                let code = error.code().as_str();
                let content = format!(
                    "{code}: the tool gave a result of {bytes} bytes, which could not be kept: {error}. The call was made; do not repeat side effects automatically."
                );
                ToolOutcome { content, is_error: true }
            }
        }
    }

    fn notice(&self, tool: &str, entry: &Entry) -> String {
        let Entry { reference, bytes, chars, preview, .. } = entry;
        let how = if self.tools.find(context::NAME).is_some() {
            format!(
                "Read it page by page: context({{ ref: \"{reference}\", offset: 0 }}). Search it: context({{ ref: \"{reference}\", query: \"…\" }})."
            )
        } else {
            format!(
                "Its reference is {reference}, but the tool `context`, which reads it, is not among the tools of this run; ask for less at a time."
            )
        };
        let data = sealed(preview);
        format!(
            "The result of `{tool}` is kept in this session's archive, not shown in full: {chars} characters, {bytes} bytes. {how}\n{NOTE} Here it is how the result begins.\n{data}"
        )
    }

    /// The model reads that its result is lost; the host should hear of it as well.
    async fn tell_of(&self, tool: &str, error: &ArchiveError) {
        let message = format!("a result of `{tool}` is lost: {error}");
        self.emitter.emit(CallEvent::Diagnostic { level: "error", code: "archive_failed", message: &message }).await;
    }
}
