// Package harness has what the tests of several areas of the public API share: servers on
// every kind of network, clients' peers that follow a script, frames of HTTP/2, streams that
// count what happens to them.
package harness
