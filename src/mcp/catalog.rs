//! A server's tools under their full names, with compiled schemas: what one candidate must pass before it is published.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::config::ServerName;
use super::connection::ListedTool;
use crate::base::code::ErrorCode;
use crate::base::limits::TOOL_NAME_CHARS;
use crate::schema::CompiledSchema;

/// One tool of a server, ready to be called.
pub struct CatalogTool {
    /// `mcp__<server>__<tool>`.
    pub full_name: String,
    /// What the server listed.
    pub listed: ListedTool,
    /// The input schema, compiled.
    pub input: CompiledSchema,
    /// The output schema, compiled.
    pub output: Option<CompiledSchema>,
}

/// Why a candidate's tools cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum CatalogError {
    #[error(
        "server `{server}`: the tool name {tool:?} has characters other than A-Z a-z 0-9 _ -, so no tool of it is used; ask its author to rename it"
    )]
    Name { server: ServerName, tool: String },
    #[error(
        "server `{server}`: the tool name `{full_name}` has {length} characters, and {TOOL_NAME_CHARS} are allowed; give the server a shorter name (`{server}` has {server_length})"
    )]
    Length { server: ServerName, full_name: String, length: usize, server_length: usize },
    #[error("server `{server}` lists the tool `{tool}` twice; ask its author to fix the list")]
    Duplicate { server: ServerName, tool: String },
    #[error("server `{server}`: the {which} schema of the tool `{tool}` is not usable: {source}")]
    Schema { server: ServerName, tool: String, which: &'static str, source: crate::schema::SchemaError },
}

impl CatalogError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Name { .. } | Self::Length { .. } | Self::Duplicate { .. } => ErrorCode::McpName,
            Self::Schema { source, .. } => source.code(),
        }
    }
}

/// Checks and compiles what a server listed.
///
/// # Errors
/// The first tool that cannot be used rejects the whole candidate.
pub fn build(server: &ServerName, listed: Vec<ListedTool>) -> Result<Vec<Arc<CatalogTool>>, CatalogError> {
    let mut tools: Vec<Arc<CatalogTool>> = Vec::with_capacity(listed.len());
    for tool in listed {
        let usable =
            !tool.name.is_empty() && tool.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !usable {
            // The name is a server's text: only its safe form is shown.
            let shown = tool.name.chars().take(64).filter(|c| !c.is_control()).collect();
            return Err(CatalogError::Name { server: server.clone(), tool: shown });
        }
        let full_name = format!("mcp__{server}__{}", tool.name);
        if full_name.len() > TOOL_NAME_CHARS {
            let length = full_name.len();
            let server_length = server.as_str().len();
            return Err(CatalogError::Length { server: server.clone(), full_name, length, server_length });
        }
        if tools.iter().any(|known| known.full_name == full_name) {
            return Err(CatalogError::Duplicate { server: server.clone(), tool: tool.name });
        }
        let compile = |raw: &RawValue, which| {
            let value = serde_json::from_str(raw.get()).unwrap_or(serde_json::Value::Null);
            CompiledSchema::compile(&value).map_err(|source| CatalogError::Schema {
                server: server.clone(),
                tool: tool.name.clone(),
                which,
                source,
            })
        };
        let input = compile(&tool.input_schema, "input")?;
        let output = tool.output_schema.as_deref().map(|raw| compile(raw, "output")).transpose()?;
        tools.push(Arc::new(CatalogTool { full_name, listed: tool, input, output }));
    }
    Ok(tools)
}
