//! The catalog of one server, page by page, within its limits.
//!
//! Leaves full names, duplicates and compiled schemas to [`catalog`](crate::mcp::catalog).

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::requests::Requests;
use super::{CallError, ConnectError, HeaderParam, complete};
use crate::base::limits::{CATALOG_BYTES, CATALOG_PAGES, CATALOG_TOOLS};
use crate::base::text::cleaned;
use crate::mcp::transport::{Extras, header_params};

const METHOD_NOT_FOUND: i64 = -32601;

/// One tool as the server lists it.
#[derive(Clone, Debug)]
pub struct ListedTool {
    /// Its name at the server.
    pub name: String,
    /// What it says of itself.
    pub description: Option<String>,
    /// The schema of its input, unchanged.
    pub input_schema: Box<RawValue>,
    /// The schema of its structured result, unchanged.
    pub output_schema: Option<Box<RawValue>>,
    /// The arguments that calls over HTTP repeat as headers.
    pub header_params: Vec<HeaderParam>,
}

/// Two tools are the same when everything that was listed of them is.
impl Hash for ListedTool {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let schema = (self.input_schema.get(), self.output_schema.as_deref().map(RawValue::get));
        (&self.name, &self.description, schema).hash(state);
    }
}

/// The order of the tools says nothing.
impl Hash for Listing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut tools: Vec<&ListedTool> = self.tools.iter().collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        (tools, &self.dropped, &self.unseen).hash(state);
    }
}

/// A whole catalog.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The usable tools, in the server's order.
    pub tools: Vec<ListedTool>,
    /// Tools whose description or schema holds characters that are not seen.
    pub unseen: Vec<String>,
    /// Tools left out because of a forbidden `x-mcp-header`, with the reason.
    pub dropped: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(borrow)]
    input_schema: &'a RawValue,
    #[serde(borrow, default)]
    output_schema: Option<&'a RawValue>,
}

pub(super) async fn read_all(
    requests: &Requests,
    has_tools: bool,
    mirrors_headers: bool,
) -> Result<Listing, ConnectError> {
    let (mut listing, mut seen, mut cursor, mut bytes) = (Listing::default(), HashSet::new(), None, 0);
    for _ in 0..CATALOG_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let message = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let page = match requests.exchange(message, Extras::default(), None).await {
            Err(CallError::Refused { code: METHOD_NOT_FOUND }) if !has_tools => return Ok(listing),
            Err(CallError::Refused { code }) => return Err(ConnectError::ListRefused { code }),
            page => page?,
        };
        bytes += page.get().len();
        if bytes > CATALOG_BYTES {
            return Err(ConnectError::Limit { what: "bytes in one catalog", limit: CATALOG_BYTES });
        }
        complete(&page)?;
        let page: Page<'_> = serde_json::from_str(page.get())
            .map_err(|_| ConnectError::Discovery { what: "a page of tools/list has not the right shape" })?;
        for raw in page.tools {
            if listing.tools.len() + listing.dropped.len() == CATALOG_TOOLS {
                return Err(ConnectError::Limit { what: "tools of one server", limit: CATALOG_TOOLS });
            }
            take(&mut listing, raw, mirrors_headers)?;
        }
        let Some(next) = page.next_cursor else { return Ok(listing) };
        if !seen.insert(next.clone()) {
            return Err(ConnectError::Discovery { what: "tools/list repeats a cursor" });
        }
        cursor = Some(next);
    }
    Err(ConnectError::Limit { what: "pages of tools/list", limit: CATALOG_PAGES })
}

fn take(listing: &mut Listing, raw: &RawValue, mirrors_headers: bool) -> Result<(), ConnectError> {
    let place = listing.tools.len() + listing.dropped.len() + 1;
    let tool: Tool<'_> = serde_json::from_str(raw.get()).map_err(|_| ConnectError::Schema {
        tool: format!("number {place}"),
        what: "it needs a name and an inputSchema",
    })?;
    let label = if is_plain(&tool.name) { tool.name.clone() } else { format!("number {place}") };
    let fault = |what| ConnectError::Schema { tool: label.clone(), what };
    let schema: Value =
        serde_json::from_str(tool.input_schema.get()).map_err(|_| fault("its inputSchema cannot be read"))?;
    if !schema.is_object() {
        return Err(fault("its inputSchema is not an object"));
    }
    if tool.output_schema.is_some_and(|schema| !schema.get().starts_with('{')) {
        return Err(fault("its outputSchema is not an object"));
    }
    let params = if mirrors_headers { header_params(&schema) } else { Ok(Vec::new()) };
    let description = tool.description.as_deref().and_then(cleaned);
    // The schema reaches the model unchanged; what it hides is at least told.
    if description.is_some() || cleaned(tool.input_schema.get()).is_some() {
        listing.unseen.push(label.clone());
    }
    match params {
        Ok(header_params) => listing.tools.push(ListedTool {
            name: tool.name,
            description: description.or(tool.description),
            input_schema: tool.input_schema.to_owned(),
            output_schema: tool.output_schema.map(ToOwned::to_owned),
            header_params,
        }),
        Err(reason) => listing.dropped.push((label, reason.to_owned())),
    }
    Ok(())
}

/// Whether a name can stand in a message of ours.
fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}
