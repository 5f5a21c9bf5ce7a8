//! The environment of a command: without variables that hold a key, may hold one, or lead to an agent that holds keys.
//!
//! A name that contains one of the listed parts is left out. Leaving out a harmless variable costs little: the caller can add it
//! back.

use std::ffi::{OsStr, OsString};

/// Parts of names that say or suggest that the value is a secret.
const SECRET_PARTS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASS",
    "CREDENTIAL",
    "CREDS",
    "AUTH",
    "COOKIE",
    "SESSION",
    "PRIVATE",
    "BEARER",
    "JWT",
    "SIGNATURE",
    "WEBHOOK",
    "CERT",
    "LICENSE",
];

/// Whole words in names, separated by underscores, that suggest a secret.
const SECRET_WORDS: &[&str] = &["PAT", "PIN", "PWD", "DSN", "SID", "OTP", "MFA"];

/// How the names of variables begin that belong to agents, to other programs' secrets, to rejoin, or to the dynamic loader.
const LEFT_OUT: &[&str] = &[
    "SSH_",
    "DBUS_",
    "GPG_",
    "GNUPG",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "GCP_",
    "GCLOUD_",
    "CLOUDSDK_",
    "KUBE",
    "DOCKER_",
    "VAULT_",
    "OP_",
    "REJOIN_",
    "LD_",
    "DYLD_",
    "GLIBC_TUNABLES",
    "MALLOC_",
    "XDG_",
    "DISPLAY",
    "WAYLAND_",
    "XAUTH",
    "GIT_",
    "NETRC",
    "PGPASS",
    "BASH_ENV",
    "BASH_FUNC_",
    "ENV",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "PYTHONSTARTUP",
    "NODE_OPTIONS",
    "PERL5OPT",
    "RUBYOPT",
    "OLDPWD",
    "SUDO_",
    "TMUX",
    "STY",
    "INVOCATION_ID",
    "NOTIFY_SOCKET",
    "LISTEN_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "NPM_CONFIG_",
    "npm_config_",
];

/// Variables that each command gets set and never inherits.
const REPLACED: &[&str] = &["HOME", "TMPDIR", "TMP", "TEMP", "TERM", "PWD", "SHLVL", "_"];

/// The variables that a command may see: `variables` without everything that holds or may hold a secret.
///
/// `keys` are secrets that the caller knows: a variable whose value contains one of them is left out, whatever its name. An address
/// with a password in it is left out, too. `HOME`, `TMPDIR` and `TERM` are left out because each command gets its own.
#[must_use]
pub fn without_secrets(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    keys: &[&str],
) -> Vec<(OsString, OsString)> {
    variables.into_iter().filter(|(name, value)| is_harmless(name, value, keys)).collect()
}

fn is_harmless(name: &OsStr, value: &OsStr, keys: &[&str]) -> bool {
    // A name that is not UTF-8 cannot be judged.
    let (Some(name), shown) = (name.to_str(), value.to_string_lossy()) else { return false };
    let upper = name.to_uppercase();
    let secret = SECRET_PARTS.iter().any(|part| upper.contains(part))
        || upper.split('_').any(|word| SECRET_WORDS.contains(&word));
    let left_out =
        LEFT_OUT.iter().any(|start| if *start == "ENV" { name == "ENV" } else { name.starts_with(start) });
    let holds_key = keys.iter().any(|key| !key.is_empty() && shown.contains(key));
    !(secret || left_out || REPLACED.contains(&name) || holds_key || has_password(&shown))
}

/// Whether a value contains an address with a password: `scheme://user:password@host`.
fn has_password(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str, value: &str) -> bool {
        !without_secrets([(name.into(), value.into())], &["sk-known-1234"]).is_empty()
    }

    #[test]
    fn variables_with_secrets_are_left_out() {
        for name in [
            "OPENAI_API_KEY",
            "GH_TOKEN",
            "DB_PASSWORD",
            "MYSQL_PASSWD",
            "APP_SECRET",
            "SSH_AUTH_SOCK",
            "SESSION_ID",
            "HTTP_COOKIE",
            "AWS_PROFILE",
            "REJOIN_STORE",
            "LD_PRELOAD",
            "DBUS_SESSION_BUS_ADDRESS",
            "GPG_AGENT_INFO",
            "GITHUB_PAT",
            "XDG_RUNTIME_DIR",
            "GIT_SSH_COMMAND",
            "BASH_ENV",
            "ENV",
            "credentials_file",
            "Auth",
        ] {
            assert!(!kept(name, "x"), "{name}");
        }
        assert!(!kept("HARMLESS", "sk-known-1234"), "a known key under another name");
        assert!(!kept("HARMLESS", "prefix=sk-known-1234;"), "a known key inside a value");
        assert!(!kept("DATABASE_URL", "postgres://me:hunter2@db/x"), "a password in an address");
    }

    #[test]
    fn variables_that_programs_need_are_kept() {
        for name in [
            "PATH",
            "LANG",
            "LC_ALL",
            "USER",
            "LOGNAME",
            "SHELL",
            "CARGO_HOME",
            "RUSTUP_HOME",
            "GOPATH",
            "JAVA_HOME",
            "EDITOR",
            "TZ",
            "NODE_ENV",
            "VIRTUAL_ENV",
            "ENVIRONMENT_NAME",
        ] {
            assert!(kept(name, "x"), "{name}");
        }
        assert!(kept("SITE", "https://example.org/a@b:c"), "no password");
    }
}
