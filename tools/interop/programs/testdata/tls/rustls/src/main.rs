//! The tour with rustls.
//! Usage: tour HOST PORT [version=1.2] [suite=NAME] [cert=FILE key=FILE]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

type Failure = Box<dyn Error>;
type Stream = StreamOwned<ClientConnection, TcpStream>;

const UPLOAD: usize = 1 << 20;
const DOWNLOAD: usize = 10 << 20;

/// Trusts every server.
#[derive(Debug)]
struct Trusting(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn configure(options: &HashMap<String, String>) -> Result<ClientConfig, Failure> {
    let mut provider = rustls::crypto::ring::default_provider();
    if let Some(suite) = options.get("suite") {
        // rustls names them TLS13_AES_128_GCM_SHA256 and so on.
        let wanted = suite.replacen("TLS_", "TLS13_", 1);
        provider.cipher_suites.retain(|s| format!("{:?}", s.suite()) == wanted);
    }
    let provider = Arc::new(provider);
    let versions: &[&rustls::SupportedProtocolVersion] = match options.get("version") {
        Some(_) => &[&rustls::version::TLS12],
        None => &[&rustls::version::TLS13],
    };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(provider)));
    Ok(match (options.get("cert"), options.get("key")) {
        (Some(cert), Some(key)) => builder.with_client_auth_cert(
            vec![CertificateDer::from_pem_file(cert)?],
            PrivateKeyDer::from_pem_file(key)?,
        )?,
        _ => builder.with_no_client_auth(),
    })
}

fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8).collect()
}

/// Asks, and returns the body of the response.
fn ask(c: &mut Stream, method: &str, path: &str, body: &[u8], version: &str) -> Result<Vec<u8>, Failure> {
    write!(c, "{method} {path} HTTP/{version}\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len())?;
    c.write_all(body)?;
    c.flush()?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        c.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head)?;
    if head.split(' ').nth(1) != Some("200") {
        return Err(head.into());
    }
    let size = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let mut got = Vec::new();
    match size {
        Some(size) => {
            got.resize(size, 0);
            c.read_exact(&mut got)?;
        }
        None => {
            c.read_to_end(&mut got)?; // fails without close_notify
        }
    }
    Ok(got)
}

fn who(c: &mut Stream, count: usize) -> Result<(), Failure> {
    for _ in 0..count {
        println!("who {}", String::from_utf8(ask(c, "GET", "/who", b"", "1.1")?)?);
    }
    Ok(())
}

fn transfer(c: &mut Stream) -> Result<(), Failure> {
    ask(c, "POST", "/upload", &pattern(UPLOAD), "1.1")?;
    println!("ok upload");
    if ask(c, "GET", "/download", b"", "1.1")? != pattern(DOWNLOAD) {
        return Err("the download differs".into());
    }
    println!("ok download");
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().collect();
    let options: HashMap<String, String> =
        args[3..].iter().filter_map(|a| a.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();
    let config = Arc::new(configure(&options)?);
    let connect = || -> Result<Stream, Failure> {
        let bare = TcpStream::connect((args[1].as_str(), args[2].parse::<u16>()?))?;
        bare.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(StreamOwned::new(ClientConnection::new(config.clone(), "localhost".try_into()?)?, bare))
    };

    let mut c = connect()?;
    who(&mut c, 20)?;
    println!("pause");
    std::io::stdin().lock().read_line(&mut String::new())?;
    who(&mut c, 20)?;
    transfer(&mut c)?;
    if options.get("version").is_none() {
        c.conn.refresh_traffic_keys()?; // and asks for the same
        transfer(&mut c)?;
        println!("ok update");
    }
    c.conn.send_close_notify();
    c.flush()?;
    if c.read_to_end(&mut Vec::new())? > 0 {
        return Err("data after the end".into());
    }
    println!("ok closed");

    println!("next");
    let mut c = connect()?;
    who(&mut c, 1)?;
    if ask(&mut c, "GET", "/bye", b"", "1.0")? != b"bye" {
        return Err("another answer".into());
    }
    println!("ok bye");
    println!("end");
    Ok(())
}
