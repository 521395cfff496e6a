// Package sluicetest has what tests of handlers and clients need, as net/http/httptest has
// for net/http: servers that end with the test, on the loopback or in memory, with clients
// that trust them; the answer of a handler to one request; and a check for what a test leaves
// behind.
//
//	func TestHello(t *testing.T) {
//		sluicetest.CheckLeaks(t)
//		s := sluicetest.NewServer(t, hello)
//		status, body, err := s.Client().Get(nil, s.URL+"/?name=Ada")
//		…
//	}
package sluicetest
