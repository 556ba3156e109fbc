//! What the loop asks of a model, and what it makes of the chunks that come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::base::code::ErrorCode;
use crate::base::fault::{Fault, HostError};
use crate::pipeline::call::ToolCall;

/// How many chunks may wait between a model and the loop.
pub const CHUNK_CREDIT: usize = 64;

/// What the host keeps the messages of a session under, as long as any part of them may still cross to it.
pub struct HistoryKey {
    id: String,
    host: Arc<dyn ModelClient>,
}

impl HistoryKey {
    /// A key that nobody has had before.
    #[must_use]
    pub fn new(host: Arc<dyn ModelClient>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self { id: NEXT.fetch_add(1, Ordering::Relaxed).to_string(), host })
    }
}

impl Drop for HistoryKey {
    fn drop(&mut self) {
        self.host.forget(&self.id);
    }
}

impl Serialize for HistoryKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id)
    }
}

/// The part of a session's messages that the other side has not seen.
#[derive(Clone, Serialize)]
pub struct HistorySlice {
    /// What they are kept under.
    #[serde(serialize_with = "as_key")]
    pub key: Arc<HistoryKey>,
    /// The index of the first message of `messages`.
    pub from: usize,
    /// Each message as JSON text.
    pub messages: Vec<Arc<RawValue>>,
}

fn as_key<S: Serializer>(key: &Arc<HistoryKey>, serializer: S) -> Result<S::Ok, S::Error> {
    key.serialize(serializer)
}

/// One request to a model.
#[derive(Serialize)]
pub struct ModelRequest {
    /// What is the same for every turn of a run.
    pub request: RequestHead,
    /// The messages.
    pub history: HistorySlice,
}

/// Model name, system prompt and tools.
#[derive(Serialize)]
pub struct RequestHead {
    /// The model id.
    pub model: Arc<str>,
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Arc<str>>,
    /// The visible tools as a JSON array; `None` when they are those of the session's last request.
    pub tools: Option<Arc<RawValue>>,
}

/// A model: streams chunks of JSON text.
pub trait ModelClient: Send + Sync {
    /// Runs one request. Pushes every chunk into `chunks` and resolves when the stream is over.
    /// Dropping the future stops the model.
    fn stream(&self, request: ModelRequest, chunks: mpsc::Sender<String>) -> BoxFuture<'_, Result<(), HostError>>;

    /// Drops the messages that are kept under a key: no slice of them comes any more.
    fn forget(&self, history: &str);
}

/// Tokens of one or more model calls.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from a prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to a prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u64>,
}

impl Usage {
    /// Adds another call's tokens.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = sum(self.cache_read_tokens, other.cache_read_tokens);
        self.cache_creation_tokens = sum(self.cache_creation_tokens, other.cache_creation_tokens);
    }
}

/// One chunk, read.
pub enum Chunk {
    /// Text to show.
    Text(String),
    /// The whole message.
    Done(Answer),
}

/// A model's finished message.
pub struct Answer {
    /// The message as it goes into the history.
    pub message: Arc<RawValue>,
    /// Its text blocks, joined.
    pub text: String,
    /// Its tool calls, in order.
    pub calls: Vec<ToolCall>,
    /// What it cost.
    pub usage: Usage,
}

#[derive(Deserialize)]
struct RawChunk<'a> {
    r#type: String,
    text: Option<String>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawBlock {
    r#type: String,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    /// Absent, it is empty; a `null` is there.
    #[serde(default = "no_input")]
    input: serde_json::Value,
}

fn no_input() -> serde_json::Value {
    serde_json::Value::Object(serde_json::Map::new())
}

impl Chunk {
    /// Reads one chunk.
    ///
    /// # Errors
    /// `PROVIDER` when the chunk is not of the agreed form; the text says which part.
    pub fn read(json: &str) -> Result<Self, Fault> {
        let odd = |what: &str| Fault::new(ErrorCode::Provider, format!("the model's stream is not usable: {what}"));
        let chunk: RawChunk = serde_json::from_str(json)
            .map_err(|_| odd("a chunk is neither a `text_delta` nor a `message_done` with its fields"))?;
        match (chunk.r#type.as_str(), chunk.text, chunk.message) {
            ("text_delta", Some(text), _) => Ok(Self::Text(text)),
            ("text_delta", None, _) => Err(odd("a `text_delta` has no `text` string")),
            ("message_done", _, Some(message)) => {
                read_answer(message, chunk.usage.unwrap_or_default(), &odd).map(Self::Done)
            }
            ("message_done", _, None) => Err(odd("a `message_done` has no `message`")),
            _ => Err(odd("a chunk has an unknown `type`")),
        }
    }
}

fn read_answer(message: &RawValue, usage: Usage, odd: &dyn Fn(&str) -> Fault) -> Result<Answer, Fault> {
    let raw: RawMessage =
        serde_json::from_str(message.get()).map_err(|_| odd("its message has no `role` and `content`"))?;
    if raw.role != "assistant" {
        return Err(odd("its message's `role` is not \"assistant\""));
    }
    let content = raw.content.map_or("null", RawValue::get);
    let blocks: Vec<RawBlock> = if content.starts_with('"') {
        vec![]
    } else {
        serde_json::from_str(content).map_err(|_| odd("its message's `content` is not a list of blocks"))?
    };
    let mut text = if blocks.is_empty() { serde_json::from_str(content).unwrap_or_default() } else { String::new() };
    let mut calls: Vec<ToolCall> = Vec::new();
    for block in blocks {
        match block.r#type.as_str() {
            "text" => text.push_str(&block.text.ok_or_else(|| odd("a text block has no `text`"))?),
            "tool_call" => {
                let (Some(id), Some(name)) = (block.id, block.name) else {
                    return Err(odd("a `tool_call` block has no `id` or no `name`"));
                };
                if calls.iter().any(|call| call.id == id) {
                    return Err(odd("two `tool_call` blocks have the same `id`"));
                }
                calls.push(ToolCall { id, name, input: block.input });
            }
            _ => {}
        }
    }
    Ok(Answer { message: Arc::from(message.to_owned()), text, calls, usage })
}
