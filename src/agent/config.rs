//! An agent's configuration: as it crosses the border, and resolved.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

use crate::archive::context;
use crate::base::code::ErrorCode;
use crate::base::env;
use crate::base::fault::Fault;
use crate::mcp::config::{AllowedTransports, Files, ServerDeclaration, Sources};
use crate::mcp::oauth::OAuthServers;
use crate::pipeline::permission::{CONNECT, PermissionMode};
use crate::pipeline::policy::{CompiledPolicy, PolicySpec};
use crate::pipeline::tools::{ToolSpec, Visibility};
use crate::session::paths::ProjectPaths;

const DEFAULT_SYSTEM: &str = "You are a capable agent. Use the tools you are given to do what the user asks, and say plainly what you did and what you could not do.";
const DEFAULT_MAX_TURNS: u32 = 50;
const DEFAULT_PARALLEL_TOOLS: usize = 10;
const MODEL_TOOL_NAME: usize = 64;

/// The configuration as the host wrote it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentConfig {
    workdir: PathBuf,
    home: Option<PathBuf>,
    model_id: String,
    model_name: Option<String>,
    mcp_servers: Option<serde_json::Value>,
    #[serde(rename = "mcpOAuth")]
    mcp_oauth: Option<serde_json::Value>,
    #[serde(default)]
    strict_mcp_config: bool,
    #[serde(default)]
    mcp_transports: AllowedTransports,
    #[serde(default)]
    tools: Vec<HostTool>,
    permission: Option<PolicySpec>,
    #[serde(default)]
    permission_mode: PermissionMode,
    has_approval: bool,
    #[serde(default)]
    has_sandbox: bool,
    system: Option<String>,
    max_turns: Option<u32>,
    max_parallel_tools: Option<usize>,
    allowed_tools: Option<Vec<String>>,
    disallowed_tools: Option<Vec<String>>,
    sessions: Option<bool>,
}

#[derive(Deserialize)]
struct HostTool {
    name: String,
    #[serde(default)]
    description: String,
    schema: Box<serde_json::value::RawValue>,
}

/// The configuration after every check.
pub struct ResolvedConfig {
    /// Where the agent works.
    pub workdir: PathBuf,
    /// Where the project's files are; `None` when no home directory is known.
    pub project: Option<ProjectPaths>,
    /// Whether sessions are kept on disk.
    pub is_saved: bool,
    /// The model id in requests.
    pub model: Arc<str>,
    /// Declared servers.
    pub servers: Vec<ServerDeclaration>,
    /// Which servers sign in.
    pub oauth: OAuthServers,
    /// The transports that servers may use, whatever their source.
    pub transports: AllowedTransports,
    /// The host's tools.
    pub tools: Vec<ToolSpec>,
    /// The policy; `None` is the default one.
    pub policy: Option<CompiledPolicy>,
    /// Whether its verdicts hold.
    pub permission_mode: PermissionMode,
    /// Whether the host asks a person.
    pub has_approval: bool,
    /// Whether the host has a sandbox.
    pub has_sandbox: bool,
    /// The system prompt.
    pub system: Arc<str>,
    /// The most turns of one run.
    pub max_turns: u32,
    /// The most tool calls at once.
    pub max_parallel_tools: usize,
    /// What the model sees.
    pub visibility: Visibility,
}

impl AgentConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// `CONFIG_INVALID` and the codes of server declarations, naming the field and never a value.
    pub fn resolve(json: &str) -> Result<ResolvedConfig, Fault> {
        let config: Self = serde_json::from_str(json).map_err(|error| unreadable(&error))?;
        for (field, path) in [("workdir", Some(&config.workdir)), ("home", config.home.as_ref())] {
            match path {
                Some(path) if path.as_os_str().is_empty() => {
                    return Err(invalid(format!("`{field}` is empty; give a directory")));
                }
                Some(path) if path.is_file() => return Err(invalid(format!("`{field}` is a file, not a directory"))),
                _ => {}
            }
        }
        if !config.workdir.is_dir() {
            return Err(invalid("`workdir` does not exist; create the directory first".to_owned()));
        }
        let canonical = config.workdir.canonicalize();
        let canonical = canonical.map_err(|_| invalid("`workdir` cannot be entered".to_owned()))?;
        // Where the process stands later does not matter.
        let workdir = std::path::absolute(&config.workdir);
        let workdir = workdir.map_err(|_| invalid("`workdir` has no absolute path".to_owned()))?;
        let home = config.home.or_else(env::default_home).and_then(|home| std::path::absolute(home).ok());
        let max_turns = config.max_turns.unwrap_or(DEFAULT_MAX_TURNS);
        let max_parallel_tools = config.max_parallel_tools.unwrap_or(DEFAULT_PARALLEL_TOOLS);
        if max_turns == 0 || max_parallel_tools == 0 {
            return Err(invalid("`maxTurns` and `maxParallelTools` are at least 1".to_owned()));
        }
        let files = if config.strict_mcp_config {
            Files::Ignored
        } else {
            Files::Read { home: home.clone(), workdir: &workdir }
        };
        let sources = Sources { files, constructor: config.mcp_servers.as_ref(), transports: &config.mcp_transports };
        let servers = sources.resolve().map_err(|error| Fault::new(error.code(), error.to_string()))?;
        let policy = config.permission.map(CompiledPolicy::compile).transpose();
        Ok(ResolvedConfig {
            workdir,
            project: home.map(|home| ProjectPaths::new(home, &canonical)),
            is_saved: config.sessions.unwrap_or(true),
            model: config.model_name.unwrap_or(config.model_id).into(),
            servers,
            oauth: OAuthServers::parse(config.mcp_oauth.as_ref())?,
            transports: config.mcp_transports,
            tools: check_tools(config.tools)?,
            policy: policy.map_err(|error| invalid(format!("`permission`: {error}")))?,
            permission_mode: config.permission_mode,
            has_approval: config.has_approval,
            has_sandbox: config.has_sandbox,
            system: config.system.map_or_else(|| Arc::from(DEFAULT_SYSTEM), Arc::from),
            max_turns,
            max_parallel_tools,
            visibility: Visibility {
                allowed: config.allowed_tools,
                disallowed: config.disallowed_tools.unwrap_or_default(),
            },
        })
    }
}

fn check_tools(tools: Vec<HostTool>) -> Result<Vec<ToolSpec>, Fault> {
    let mut known: Vec<ToolSpec> = Vec::with_capacity(tools.len());
    for (index, tool) in tools.into_iter().enumerate() {
        let name = &tool.name;
        let plain = !name.is_empty()
            && name.len() <= MODEL_TOOL_NAME
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !plain {
            return Err(invalid(format!("`tools[{index}].name` has 1 to {MODEL_TOOL_NAME} of A-Z a-z 0-9 _ -")));
        }
        if name == CONNECT || name.starts_with("mcp__") {
            return Err(Fault::new(
                ErrorCode::McpReserved,
                format!("`tools[{index}].name`: `{name}` is reserved for MCP; choose another name"),
            ));
        }
        if name == context::NAME {
            return Err(Fault::new(
                ErrorCode::McpReserved,
                format!("`tools[{index}].name`: `{name}` is reserved for a built-in tool; choose another name"),
            ));
        }
        if known.iter().any(|other| other.name == *name) {
            return Err(invalid(format!("`tools[{index}].name`: there are two tools named `{name}`")));
        }
        known.push(ToolSpec { name: tool.name, description: tool.description, parameters: tool.schema });
    }
    Ok(known)
}

/// The error's own text repeats values and says where they stand in the text between the languages.
fn unreadable(error: &serde_json::Error) -> Fault {
    invalid(
        match error.classify() {
            serde_json::error::Category::Data => {
                "the configuration has a field of the wrong type or a number out of range"
            }
            _ => "the configuration nests too deeply",
        }
        .to_owned(),
    )
}

fn invalid(message: String) -> Fault {
    Fault::new(ErrorCode::ConfigInvalid, message)
}
