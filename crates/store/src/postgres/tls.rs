//! Encryption of connections, with what is asked of the server's certificate.

use std::{fs, path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    address::{Roots, Trust},
    link::refused,
};
use crate::error::{StoreError, StoreResult};

/// Advice about certificates.
const ROOTS: &str =
    "sslrootcert names a file with the certificates of authorities (PEM); sslmode=require asks for none";

/// What encrypts a connection.
pub(super) type Connect = MakeRustlsConnect;

pub(super) fn connect(trust: &Trust) -> StoreResult<Connect> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let wrong = |why: Error| refused(format!("connections cannot be encrypted: {why}"), ROOTS);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(wrong)?;
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anyone => Arc::new(Lenient { provider, authority: None }),
        Trust::Authority(given) => {
            Arc::new(Lenient { provider: Arc::clone(&provider), authority: Some(checked(given, provider)?) })
        }
        Trust::Host(given) => checked(given, provider)?,
    };
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// The full check of a certificate.
fn checked(given: &Roots, provider: Arc<CryptoProvider>) -> StoreResult<Arc<WebPkiServerVerifier>> {
    let mut store = RootCertStore::empty();
    match given {
        Some(path) => {
            for certificate in certificates(path)? {
                let refused = |why| refused(format!("{}: {why}", path.display()), ROOTS);
                store.add(certificate).map_err(refused)?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let made = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build();
    made.map_err(|why| refused(format!("no certificate of an authority can be used: {why}"), ROOTS))
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

/// Checks less than the whole: who signed a certificate, or nothing at all. The handshake's own signatures are always checked.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(end, between, name, response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
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
