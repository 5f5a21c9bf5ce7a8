//! `fetch`: reads a page of the public web as text.
//!
//! A stranger's text may make a model ask for an address, so a request must never reach this machine or its network. Names are
//! resolved here, every address is checked (`address.rs`), and connections go only to checked addresses: the client has no other
//! resolver and no proxy. Redirects are followed by hand, each checked like the first address. No cookies or keys are sent.

mod address;
mod html;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;
use reqwest::{
    StatusCode, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header,
};

use self::address::is_public;
use super::{
    ChangeSubject, Plan, PlannedChange, Reach, RunningCall, Tool, ToolOutput, arguments::CallArguments,
    work::grouped,
};
use crate::provider::{BoxFuture, http::install_tls};

/// The longest time of a call, including redirects.
const TIME: Duration = Duration::from_secs(30);
/// The most redirects that are followed.
const REDIRECTS: usize = 5;
/// The most bytes that are received. Pages are smaller, and this is no tool for downloads.
const RECEIVED: usize = 4 * 1024 * 1024;
/// The most bytes of text in a result, about twenty thousand words.
const SHOWN: usize = 128 * 1024;
/// The most bytes of an error page in a result.
const ERROR_SHOWN: usize = 2 * 1024;
/// The most bytes of an address.
const ADDRESS: usize = 8 * 1024;

/// Resolves a name to addresses.
type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;
/// Whether a connection to an address is allowed.
type Allowed = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Reads pages of the web.
#[derive(Clone)]
pub struct Fetch {
    resolver: Resolver,
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fetch")
    }
}

impl Default for Fetch {
    fn default() -> Self {
        let lookup: Lookup = Arc::new(|name| {
            Box::pin(async move {
                // The port does not matter for resolving.
                let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        });
        Self::with(lookup, Arc::new(is_public))
    }
}

/// Why a page cannot be read.
#[derive(Debug)]
enum Refusal {
    /// An address that is not on the public web.
    NotPublic(String),
    Other(String),
}

/// Resolves names for the client, and refuses those that lead to an address that is not allowed.
#[derive(Clone)]
struct Resolver {
    lookup: Lookup,
    allowed: Allowed,
}

/// The error for a name with an address that is not allowed.
#[derive(Debug, thiserror::Error)]
#[error("{name} has the address {address}")]
struct NotAllowed {
    name: String,
    address: IpAddr,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let name = name.as_str().to_owned();
            let found = (resolver.lookup)(name.clone()).await?;
            // One forbidden address is enough: a name with both kinds is an attempt to get through.
            if let Some(address) = found.iter().find(|address| !(resolver.allowed)(**address)) {
                return Err(Box::new(NotAllowed { name, address: *address }) as _);
            }
            if found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into());
            }
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

impl Fetch {
    fn with(lookup: Lookup, allowed: Allowed) -> Self {
        Self { resolver: Resolver { lookup, allowed }, client: Arc::default() }
    }

    fn client(&self) -> Result<&reqwest::Client, Refusal> {
        let built = self.client.get_or_init(|| {
            install_tls();
            let builder = || {
                reqwest::Client::builder()
                    .user_agent(concat!("rejoin/", env!("CARGO_PKG_VERSION")))
                    .dns_resolver(Arc::new(self.resolver.clone()))
                    .redirect(reqwest::redirect::Policy::none())
                    .retry(reqwest::retry::never())
                    .referer(false)
                    // A proxy would resolve names by itself.
                    .no_proxy()
                    // A connection that is kept open would outlive the check of its address.
                    .pool_max_idle_per_host(0)
                    .connect_timeout(Duration::from_secs(10))
            };
            // A machine without certificates can still read pages without TLS.
            builder().build().or_else(|_| builder().tls_certs_only([]).build()).map_err(|why| why.to_string())
        });
        built.as_ref().map_err(|why| Refusal::Other(why.clone()))
    }

    /// Checks whether a page may be requested, before a name in its address is resolved.
    fn check(&self, url: &Url) -> Result<(), Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Other(format!(
                "`{}:` cannot be fetched: only http and https can",
                url.scheme()
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Other(String::from(
                "the address contains a user name or a password: leave it out",
            )));
        }
        let host = url.host_str().unwrap_or_default();
        // The client connects to a numeric address without resolving it, so it is checked here. The parser has already turned every
        // spelling of an IPv4 address (decimal, octal, hexadecimal, shortened) into the usual one.
        let number = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let allowed = match number {
            Ok(address) => (self.resolver.allowed)(address),
            Err(_) => {
                let name = host.trim_end_matches('.').to_ascii_lowercase();
                name != "localhost" && !name.ends_with(".localhost") && !name.is_empty()
            }
        };
        if allowed { Ok(()) } else { Err(Refusal::NotPublic(host.to_owned())) }
    }

    async fn fetch(&self, url: &str) -> Result<String, String> {
        let mut url = Url::parse(url.trim()).map_err(|why| {
            format!("`{}` is not an address: {why}. It must begin with https:// or http://", brief(url))
        })?;
        url.set_fragment(None);
        for _ in 0..=REDIRECTS {
            match self.get(&url).await.map_err(|why| words(&url, why))? {
                Answer::Text(text) => return Ok(text),
                Answer::Moved(next) => url = next,
            }
        }
        Err(format!("more than {REDIRECTS} redirects; the last one is to {}", brief(url.as_str())))
    }

    async fn get(&self, url: &Url) -> Result<Answer, Refusal> {
        self.check(url)?;
        let request = self.client()?.get(url.clone()).header(
            header::ACCEPT,
            "text/html, text/plain, text/markdown, application/json, text/*;q=0.9, */*;q=0.1",
        );
        let response = request.send().await.map_err(|why| failure(&why))?;
        let status = response.status();
        if let Some(to) = response.headers().get(header::LOCATION).filter(|_| is_redirect(status)) {
            let to = to
                .to_str()
                .map_err(|_| Refusal::Other(String::from("a redirect without a readable address")))?;
            let next = url.join(to);
            let mut next = next.map_err(|why| {
                Refusal::Other(format!("a redirect to `{}`, which is not an address: {why}", brief(to)))
            })?;
            next.set_fragment(None);
            return Ok(Answer::Moved(next));
        }
        let text = Page::read(response).await?.text(url)?;
        if status.is_success() {
            return Ok(Answer::Text(text));
        }
        Err(Refusal::Other(format!("the server answered {status}\n{}", beginning(&text, ERROR_SHOWN).0)))
    }
}

/// A server's answer.
enum Answer {
    Text(String),
    Moved(Url),
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The part of a response that was received.
struct Page {
    media_type: String,
    charset: Option<String>,
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Page {
    async fn read(mut response: reqwest::Response) -> Result<Self, Refusal> {
        let header =
            |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = header(header::CONTENT_TYPE).to_ascii_lowercase();
        let mut fields = content_type.split(';').map(str::trim);
        let media_type = fields.next().unwrap_or_default().to_owned();
        let charset = fields
            .find_map(|field| field.strip_prefix("charset="))
            .map(|name| name.trim_matches('"').to_owned());
        let encoding = header(header::CONTENT_ENCODING).to_ascii_lowercase();
        let size = response.content_length();
        let of_size = || size.map_or_else(String::new, |size| format!(", {} bytes", grouped(size)));
        if !matches!(encoding.as_str(), "" | "identity") {
            return Err(Refusal::Other(format!(
                "the answer is compressed ({}), which was not asked for",
                brief(&encoding)
            )));
        }
        if !media_type.is_empty() && !is_text(&media_type) {
            return Err(Refusal::Other(format!(
                "the answer is not text: {}{}",
                brief(&media_type),
                of_size()
            )));
        }
        let mut page = Self { media_type, charset, bytes: Vec::new(), is_cut: false };
        while let Some(chunk) = response.chunk().await.map_err(|why| failure(&why))? {
            let room = RECEIVED - page.bytes.len();
            page.bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                page.is_cut = true;
                break;
            }
        }
        if page.bytes.contains(&0) && !page.charset.as_deref().is_some_and(|name| name.starts_with("utf-16"))
        {
            return Err(Refusal::Other(format!(
                "the answer is not text, though it is called {}{}",
                if page.media_type.is_empty() { "nothing" } else { &page.media_type },
                of_size()
            )));
        }
        Ok(page)
    }

    fn text(self, url: &Url) -> Result<String, Refusal> {
        let charset = self.charset.as_deref().map(str::as_bytes);
        let charset = charset.and_then(encoding_rs::Encoding::for_label).unwrap_or(encoding_rs::UTF_8);
        let (text, _, _) = charset.decode(&self.bytes);
        let is_html = matches!(self.media_type.as_str(), "text/html" | "application/xhtml+xml")
            || (self.media_type.is_empty() && html::looks_like(&text));
        let text = if is_html { html::to_text(&text, url) } else { text.into_owned() };
        let (shown, is_short) = beginning(&text, SHOWN);
        let kind = if self.media_type.is_empty() { "no type" } else { &self.media_type };
        let mut said = format!("[{url}, {kind}]\n{shown}");
        if is_short {
            said.push_str(&format!(
                "\n[cut: the first {} of {} bytes]",
                grouped(shown.len() as u64),
                grouped(text.len() as u64)
            ));
        }
        if self.is_cut {
            said.push_str(&format!(
                "\n[the page is larger than {} bytes: the rest was not received]",
                grouped(RECEIVED as u64)
            ));
        }
        Ok(said)
    }
}

/// The first bytes of a text, at most `most`, and whether there is more.
fn beginning(text: &str, most: usize) -> (&str, bool) {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    (&text[..end], end < text.len())
}

/// Foreign text on one line, for an error.
fn brief(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether a media type is a kind of text.
fn is_text(media_type: &str) -> bool {
    let (kind, name) = media_type.split_once('/').unwrap_or((media_type, ""));
    let name = name.strip_prefix("x-").unwrap_or(name);
    let is_known = matches!(name, "json" | "ndjson" | "jsonl" | "xml" | "yaml" | "toml" | "sql" | "graphql")
        || matches!(name, "javascript" | "ecmascript" | "typescript" | "sh" | "www-form-urlencoded");
    // `image/svg+xml`, too.
    let has_known_suffix =
        name.rsplit_once('+').is_some_and(|(_, suffix)| matches!(suffix, "json" | "xml" | "yaml"));
    kind == "text" || (kind == "application" && is_known) || has_known_suffix
}

/// Why a request failed, without the address, which the caller adds.
fn failure(error: &reqwest::Error) -> Refusal {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut last = String::from("the request failed");
    while let Some(why) = cause {
        if let Some(refused) = why.downcast_ref::<NotAllowed>() {
            return Refusal::NotPublic(refused.to_string());
        }
        last = why.to_string();
        cause = why.source();
    }
    Refusal::Other(if error.is_timeout() { String::from("the server does not answer") } else { brief(&last) })
}

fn words(url: &Url, why: Refusal) -> String {
    let url = brief(url.as_str());
    match why {
        Refusal::NotPublic(what) => format!(
            "`{url}` is not fetched: {} is not on the public internet. This machine and its network cannot be reached",
            brief(&what)
        ),
        Refusal::Other(why) => format!("`{url}`: {why}"),
    }
}

/// The address in the arguments of a call.
fn given(arguments: &str) -> Result<String, String> {
    let url = CallArguments::parse(arguments, &["url"])?.short("url", ADDRESS)?;
    url.ok_or_else(|| String::from("`url` is missing: it must be an address such as \"https://example.com\""))
}

impl Tool for Fetch {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"url":{"type":"string","description":"an address that begins with https:// or http://"}},"required":["url"],"additionalProperties":false}"#;
        let description = "Reads a page of the public web as text; HTML becomes readable text. Files that are not text, and addresses \
                           of this machine or its network, are refused.";
        ToolDeclaration::function("fetch", description, Raw::new(schema))
    }

    fn plan<'a>(&'a self, arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        let planned = given(arguments).map_err(ToolOutput::error).map(|url| {
            Plan::Changes(PlannedChange {
                subject: ChangeSubject::Url(url.clone()),
                // This tool is only offered if a setting allows it, and it reaches only public addresses.
                reach: Reach::Confined,
                ..PlannedChange::new(format!("fetch {url}"))
            })
        });
        Box::pin(std::future::ready(planned))
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let url = match given(call.arguments) {
                Ok(url) => url,
                Err(why) => return ToolOutput::error(why),
            };
            match tokio::time::timeout(TIME, self.fetch(&url)).await {
                Ok(done) => done.map_or_else(ToolOutput::error, ToolOutput::of),
                Err(_) => ToolOutput::error(format!(
                    "`{}` was not read within {} seconds",
                    brief(&url),
                    TIME.as_secs()
                )),
            }
        })
    }
}

#[cfg(test)]
mod tests;
