//! Encryption of connections, and the checks of the server's certificate.

use std::{fs, path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    address::{Roots, Trust},
    link::refused,
};
use crate::error::{StoreError, StoreResult};

/// Advice about certificates.
pub(super) const ROOTS: &str = "sslrootcert=FILE names the authority's certificate (PEM), or the server's own if it signed it itself; \
                                sslmode=require encrypts without checking who the server is";

/// Encrypts a connection.
pub(super) type Connect = MakeRustlsConnect;

pub(super) fn connect(trust: &Trust) -> StoreResult<Connect> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let wrong = |why: Error| refused(format!("connections cannot be encrypted: {why}"), ROOTS);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(wrong)?;
    let (authority, checks_name) = match trust {
        Trust::Anyone => (None, false),
        Trust::Authority(given) => (Some(Authority::of(given, &provider)?), false),
        Trust::Host(given) => (Some(Authority::of(given, &provider)?), true),
    };
    let verifier = Arc::new(Verifier { provider, authority, checks_name });
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// The authorities that may sign certificates of servers.
#[derive(Debug)]
struct Authority {
    verifier: Arc<WebPkiServerVerifier>,
    /// The certificates in the file that the user named.
    given: Vec<CertificateDer<'static>>,
}

impl Authority {
    fn of(given: &Roots, provider: &Arc<CryptoProvider>) -> StoreResult<Self> {
        let mut store = RootCertStore::empty();
        let given = given.as_deref().map(certificates).transpose()?.unwrap_or_default();
        for certificate in &given {
            let refused = |why| refused(format!("a certificate cannot be used: {why}"), ROOTS);
            store.add(certificate.clone()).map_err(refused)?;
        }
        if given.is_empty() {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let made = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
        let verifier =
            made.map_err(|why| refused(format!("no certificate of an authority can be used: {why}"), ROOTS))?;
        Ok(Self { verifier, given })
    }
}

fn certificates(path: &Path) -> StoreResult<Vec<CertificateDer<'static>>> {
    let text = fs::read(path).map_err(StoreError::io(format!("reading {}", path.display())))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let read = read.map_err(|why| refused(format!("{}: {why}", path.display()), ROOTS))?;
    if read.is_empty() {
        return Err(refused(format!("{} contains no certificate", path.display()), ROOTS));
    }
    Ok(read)
}

/// Checks a certificate as far as the address requires. The handshake's own signatures are always checked.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` if the signer is not checked.
    authority: Option<Authority>,
    checks_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError as Wrong;
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verifier.verify_server_cert(end, between, name, response, now) {
            Err(Error::InvalidCertificate(Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }))
                if !self.checks_name =>
            {
                Ok(ServerCertVerified::assertion())
            }
            // The server signed its own certificate, as described in PostgreSQL's manual.
            Err(Error::InvalidCertificate(Wrong::Other(_))) if authority.given.contains(end) => {
                if self.checks_name {
                    verify_server_name(&ParsedCertificate::try_from(end)?, name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
