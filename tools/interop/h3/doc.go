// Package h3 has tests of module http3 with clients that other people have written, and with one
// that sends any bytes: the rules of RFC 9114, 9204, 9220 and 9218 (rfc_test.go), attacks
// (attack_test.go), programs (programs_test.go), and a network that loses, reorders and cuts
// packets (network_test.go). The long forms have flags:
//
//	go -C tools/interop test ./h3 -args -units 50000 -requests 10000
//
// A test skips the programs that are not installed, and names them. Set SLUICE_PYTHON_H3 to a
// python3 that has them:
//
//	python3 -m venv DIR && DIR/bin/pip install aioquic curl_cffi
package h3
