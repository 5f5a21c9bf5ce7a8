"""Reads request bodies, one JSON object a line with `name` and `body`, and validates each as mistral-common does for
serving. Prints a line with `name`, `version` and `error` for each refusal, and last how many were read."""

import json
import sys
import warnings

warnings.simplefilter("ignore")

from mistral_common.protocol.instruct import validator
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.base import TokenizerVersion

SERVING = validator.ValidationMode.serving
# The older library has no such function; its class V5 serves v7 and v11.
OLD = not hasattr(validator, "get_validator")


def validators():
    """Every version from v7 on. v3 forbids a text beside calls, which the hosted models have long allowed."""
    if OLD:
        return {
            "v7": validator.MistralRequestValidatorV5(mode=SERVING),
            "v13": validator.MistralRequestValidatorV13(mode=SERVING),
        }
    return {v: validator.get_validator(TokenizerVersion(v), SERVING) for v in ("v7", "v11", "v13", "v15")}


# Parts that the service takes and the library does not know.
UNKNOWN = {"document_url", "file", "reference"}


def parts(messages):
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        yield from (part for part in content or [] if isinstance(part, dict)) if isinstance(content, list) else ()


def request_of(body):
    """The request without what the library does not know: settings that have nothing to do with the conversation, parts
    that only the service takes. A thought is a list of parts for the service and a text for the library; so is, for the
    older one, the content of a result."""
    messages = json.loads(json.dumps(body["messages"]))
    for part in parts(messages):
        if part.get("type") in UNKNOWN:
            kind = part["type"]
            part.clear()
            part.update(type="text", text=kind)
        if isinstance(part.get("thinking"), list):
            part["thinking"] = "".join(piece["text"] for piece in part["thinking"])
    for message in messages if OLD else ():
        content = message.get("content")
        if message.get("role") == "tool" and isinstance(content, list):
            if all(part.get("type") == "text" for part in content):
                message["content"] = "".join(part["text"] for part in content)
    return ChatCompletionRequest(
        model=body.get("model") or "any", messages=messages, tools=body.get("tools"), temperature=0.0
    )


def main():
    checks = validators()
    lines = [json.loads(line) for line in sys.stdin]
    for line in lines:
        for version, check in checks.items():
            body = line["body"]
            try:
                # Thoughts came with v11; a body that has them is not for an older model.
                thinks = any(part.get("type") == "thinking" for part in parts(body["messages"]))
                if not (thinks and version == "v7"):
                    check.validate_request(request_of(body))
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                print(json.dumps({"name": line["name"], "version": version, "error": text}))
                break
    print(json.dumps({"read": len(lines)}))


main()
