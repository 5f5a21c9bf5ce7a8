//! From a request to an answer: who asks, whether the request is sound, the model's answer, and the fault.

use std::{sync::Arc, time::SystemTime};

use rejoin_formats::Dialect;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{
    Framing, Heard, Service, Shared, Violation,
    anthropic::Anthropic,
    brain::Say,
    copilot,
    faults::{Answered, Manner, instead},
    gemini::{self, Gemini},
    http::{Body, Reply, Request, Sent},
    issue::{Asker, Issuer, walk},
    listen::{self, Handler},
    locked, models,
    ollama::Ollama,
    openai_chat::Chat,
    openai_responses::Responses,
    refuse::{Cause, Refusal},
    route::{Op, base, route},
    speak::{Asked, Objection, Speaker, Tokens, text},
};

impl Handler for Shared {
    fn framing(&self) -> Framing {
        self.config.framing
    }

    fn answer(&self, request: Request) -> listen::Answered {
        let turn = Turn::new(self, &request);
        let (reply, manner) = turn.answer();
        listen::Answered { number: turn.number, reply, manner }
    }

    fn note(&self, number: usize, sent: Sent) {
        if let Some(heard) = locked(&self.heard).get_mut(number) {
            heard.sent = sent.bytes;
            heard.whole = sent.whole;
        }
    }

    fn end(&self, number: usize) {
        if let Some(log) = &self.config.log
            && let Some(heard) = locked(&self.heard).get_mut(number)
        {
            log(heard);
        }
    }
}

/// One request on its way to an answer.
struct Turn<'a> {
    shared: &'a Shared,
    request: &'a Request,
    number: usize,
    service: Service,
    op: Option<Op>,
}

impl<'a> Turn<'a> {
    fn new(shared: &'a Shared, request: &'a Request) -> Self {
        let (service, op) = route(shared.config.service, request);
        let mut diary = locked(&shared.heard);
        let number = diary.next;
        diary.next += 1;
        diary.heard.push(Heard {
            number,
            at: SystemTime::now(),
            service: op.as_ref().map(|_| service),
            method: request.method.clone(),
            target: request.target.clone(),
            headers: request.headers.clone(),
            body: Arc::from(request.body.as_slice()),
            status: 0,
            answer: Arc::from([]),
            say: None,
            sent: 0,
            whole: false,
        });
        drop(diary);
        Self { shared, request, number, service, op }
    }

    /// The answer, and in what manner it is sent.
    fn answer(&self) -> (Reply, Manner) {
        let (mut reply, say, dialect) = self.reply();
        let mut manner = Manner::default();
        let at_the_gate = matches!(self.op, Some(Op::DeviceCode | Op::AccessToken | Op::Exchange));
        if !at_the_gate {
            let key = self.key();
            let of = Answered { service: self.service, dialect, key: key.as_deref() };
            for fault in locked(&self.shared.plan).take() {
                manner.add(&fault);
                if let Some(other) = instead(&fault, &of, &reply) {
                    reply = other;
                }
            }
        }
        if let Some(heard) = locked(&self.shared.heard).get_mut(self.number) {
            heard.status = reply.status;
            heard.answer = Arc::from(reply.bytes());
            heard.say = say;
        }
        (reply, manner)
    }

    fn reply(&self) -> (Reply, Option<Say>, Option<Dialect>) {
        let Some(op) = &self.op else {
            let path = format!("{} {}", self.request.method, self.request.path);
            return (Refusal::of(Cause::NoPath(path)).reply(self.service), None, None);
        };
        let plain = |reply| (reply, None, None);
        let speaker: &dyn Speaker = match op {
            Op::DeviceCode => return plain(copilot::device_code(self.shared, self.request)),
            Op::AccessToken => return plain(copilot::access_token(self.shared, self.request)),
            Op::Exchange => return plain(copilot::exchange(self.shared, self.request, &self.own_base())),
            Op::Alive(line) => return plain(Reply::text(200, "text/plain; charset=utf-8", *line)),
            Op::Show => return plain(self.show()),
            Op::Models | Op::Model(_) => return plain(self.models(op)),
            Op::Chat if self.service == Service::Mistral => &Chat(Dialect::Mistral),
            Op::Chat => &Chat(Dialect::OpenAiChat),
            Op::Responses => &Responses,
            Op::Messages => &Anthropic,
            Op::OllamaChat => &Ollama,
            Op::Generate { .. } => &Gemini,
        };
        let dialect = Some(speaker.dialect());
        let (reply, say) = match self.spoken(op, speaker) {
            Ok((reply, say)) => (reply, Some(say)),
            Err(refusal) => (refusal.reply(self.service), None),
        };
        (reply, say, dialect)
    }

    /// Asks the model, if there is nothing to object to.
    fn spoken(&self, op: &Op, speaker: &dyn Speaker) -> Result<(Reply, Say), Refusal> {
        let config = &self.shared.config;
        let account = self.account()?;
        let mut found = Vec::new();
        let kind = self.request.header("content-type").unwrap_or_default();
        if !kind.starts_with("application/json") {
            found.push(Objection::new("HTTP", "content-type", format!("Unsupported media type: '{kind}'")));
        }
        for violation in rejoin_checkers::named(speaker.dialect().name())
            .map(|checker| checker.check(&self.request.body).violations)
            .unwrap_or_default()
        {
            found.push(Objection::new(violation.rule, violation.path, violation.message));
        }
        // A body that its checker could not read cannot be read here either.
        let readable = !found.iter().any(|objection| objection.place == "body" && objection.rule != "ANT-28");
        let body = if readable { parsed(&self.request.body) } else { None }.unwrap_or(Value::Null);
        let (model, stream) = match op {
            Op::Generate { model, stream } => (model.clone(), *stream),
            Op::OllamaChat => (text(&body, "model").to_owned(), body["stream"] != false),
            _ => (text(&body, "model").to_owned(), body["stream"] == true),
        };
        let asker = Asker { service: self.service, model: model.clone(), account };
        let required = config.reasoning_required && self.service == Service::DeepSeek;
        let asked = Asked { service: self.service, model, stream, body: &body, reasoning_required: required };
        let pieces = speaker.pieces(&body);
        let mut walked = walk(&config.issued, &asker, &pieces);
        if readable {
            found.extend(speaker.required(&asked));
            found.extend(walked.wrong.drain(..).map(|wrong| speaker.wrong(&wrong, &body)));
            found.extend(speaker.missing(&asked, &config.issued, &asker));
        }
        if self.service == Service::Anthropic && self.request.header("anthropic-version").is_none() {
            found.push(Objection::new("HTTP", "anthropic-version", "anthropic-version: header is required"));
        }
        if self.service == Service::Copilot {
            found.extend(copilot::headers(self.request, Some(&body)));
        }
        let first = found.first().cloned();
        self.object(found);
        if let Some(objection) = first {
            return Err(self.refusal(&objection));
        }
        if !models::knows(config, &asker.model) {
            return Err(Refusal::of(Cause::NoModel(asker.model)));
        }
        let ask = speaker.ask(&asked);
        let say = (config.brain)(&ask);
        let tokens = Tokens::of(walked.bytes, walked.cached, &say);
        let issuer = Issuer::new(&config.issued, &asker, walked.trail);
        let answer = speaker.answer(&ask, &say, issuer, tokens);
        let mut reply = if !stream {
            Reply::json(200, &answer.whole)
        } else if self.service == Service::Gemini && !self.request.asks("alt", "sse") {
            let pieces = gemini::as_list(&answer.pieces);
            Reply {
                status: 200,
                headers: vec![("content-type".into(), "application/json; charset=UTF-8".into())],
                body: Body::Pieces(pieces),
            }
        } else {
            let headers = vec![
                ("content-type".into(), speaker.stream_type().into()),
                ("cache-control".into(), "no-cache".into()),
            ];
            Reply { status: 200, headers, body: Body::Pieces(answer.pieces) }
        };
        let name = if self.service == Service::Anthropic { "request-id" } else { "x-request-id" };
        reply.headers.push((name.into(), format!("req_{:024}", self.number)));
        Ok((reply, say))
    }

    /// Records the faults of the request.
    fn object(&self, found: Vec<Objection>) {
        let mut violations = locked(&self.shared.violations);
        violations.extend(found.into_iter().map(|Objection { rule, place, message }| Violation {
            request: self.number,
            service: self.service,
            rule: rule.to_owned(),
            place,
            message,
        }));
    }

    fn refusal(&self, objection: &Objection) -> Refusal {
        let cause = match objection.rule {
            "ANT-28" => Cause::Status(413),
            "HTTP" if objection.place == "content-type" => Cause::Status(415),
            _ => Cause::Invalid,
        };
        let refusal = Refusal::of(cause).saying(&*objection.message).about(bracketed(&objection.place));
        match (objection.rule, self.service) {
            ("RSP-07", _) => refusal.coded("invalid_encrypted_content"),
            ("COP-02" | "COP-03" | "COP-04", _) => refusal.coded("header"),
            (_, Service::Codex) => refusal.coded("detail"),
            _ => refusal,
        }
    }

    /// The key that came with the request, whether it is good or not.
    fn key(&self) -> Option<String> {
        let header = match self.service {
            Service::Anthropic => self.request.header("x-api-key"),
            Service::Gemini => self.request.header("x-goog-api-key"),
            _ => None,
        };
        let bearer = || self.request.header("authorization")?.strip_prefix("Bearer ");
        let key = match self.service {
            Service::Gemini => header,
            _ => header.or_else(bearer),
        };
        key.filter(|key| !key.is_empty()).map(str::to_owned)
    }

    /// Who asks, if they may.
    fn account(&self) -> Result<String, Refusal> {
        let config = &self.shared.config;
        match (self.key(), self.service) {
            (_, Service::Ollama) => Ok(String::new()),
            (None, _) => Err(Refusal::of(Cause::NoKey)),
            // Its tokens change, and the account does not.
            (Some(key), Service::Copilot) if copilot::admits(self.shared, &key) => Ok(String::new()),
            (Some(_), Service::Copilot) => Err(Refusal::of(Cause::WrongKey)),
            (Some(key), _) if config.key.as_ref().is_none_or(|good| *good == key) => Ok(key),
            (Some(_), _) => Err(Refusal::of(Cause::WrongKey)),
        }
    }

    fn models(&self, op: &Op) -> Reply {
        let config = &self.shared.config;
        // OpenRouter lists its models for everyone.
        if self.service != Service::OpenRouter
            && let Err(refusal) = self.account()
        {
            return refusal.reply(self.service);
        }
        if self.service == Service::Copilot {
            let found = copilot::headers(self.request, None);
            let first = found.first().cloned();
            self.object(found);
            if let Some(objection) = first {
                return self.refusal(&objection).reply(self.service);
            }
        }
        if self.service == Service::Anthropic && self.request.header("anthropic-version").is_none() {
            let objection =
                Objection::new("HTTP", "anthropic-version", "anthropic-version: header is required");
            self.object(vec![objection.clone()]);
            return self.refusal(&objection).reply(self.service);
        }
        match op {
            Op::Model(name) if models::knows(config, name) => {
                Reply::json(200, &models::one(self.service, name))
            }
            Op::Model(name) => Refusal::of(Cause::NoModel(name.clone())).reply(self.service),
            _ => Reply::json(200, &models::list(config, self.service, self.request)),
        }
    }

    fn show(&self) -> Reply {
        let body = parsed(&self.request.body).unwrap_or(json!({}));
        let name = if text(&body, "model").is_empty() { text(&body, "name") } else { text(&body, "model") };
        if models::knows(&self.shared.config, name) {
            Reply::json(200, &models::shown(name))
        } else {
            Refusal::of(Cause::NoModel(name.to_owned())).reply(self.service)
        }
    }

    /// The address of the service that the client reached it by.
    fn own_base(&self) -> String {
        let host = self.request.header("host").unwrap_or("127.0.0.1");
        if self.shared.config.service.is_some() {
            format!("http://{host}")
        } else {
            base(&format!("http://{host}"), self.service)
        }
    }
}

/// A body as JSON, however deep.
fn parsed(body: &[u8]) -> Option<Value> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    reader.disable_recursion_limit();
    Value::deserialize(&mut reader).ok()
}

/// A place as OpenAI writes it: `messages[3].content`.
fn bracketed(place: &str) -> String {
    place.split('.').fold(String::new(), |written, part| match part.parse::<usize>() {
        Ok(index) => format!("{written}[{index}]"),
        Err(_) if written.is_empty() => part.to_owned(),
        Err(_) => format!("{written}.{part}"),
    })
}
