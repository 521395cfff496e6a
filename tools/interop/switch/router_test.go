package switching

import (
	"strings"
	"testing"
)

// formBody is a multipart form with a field and a file.
const formBody = "--b\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n" +
	"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\ncontent\r\n--b--\r\n"

// long: a table of requests
func routerRequests() []request {
	const (
		form      = "Content-Type: application/x-www-form-urlencoded"
		multipart = "Content-Type: multipart/form-data; boundary=b"
	)
	return []request{
		{name: "root", line: "GET /"},
		{name: "HTTP/1.0", line: "GET / HTTP/1.0"},
		{name: "HTTP/1.0 keep-alive", line: "GET / HTTP/1.0", fields: "Connection: keep-alive"},
		{name: "close", line: "GET /", fields: "Connection: close"},
		{name: "HEAD", line: "HEAD /"},
		{name: "no such path", line: "GET /nowhere"},
		{name: "method not allowed", line: "DELETE /whoami"},
		{name: "request id", line: "GET /", fields: "X-Request-ID: abc-123"},
		{name: "users", line: "GET /api/v1/users"},
		{name: "users by query", line: "GET /api/v1/users?limit=1&desc=true&prefix=a"},
		{name: "user", line: "GET /api/v1/users/2"},
		{name: "user missing", line: "GET /api/v1/users/77"},
		{name: "user bad", line: "GET /api/v1/users/x%20y"},
		{name: "user by JSON", line: "POST /api/v1/users", fields: "Content-Type: application/json", body: `{"name":"cid"}`},
		{name: "user by form", line: "POST /api/v1/users", fields: form, body: "name=d%C3%A9+%26&x"},
		{name: "user by chunks", line: "POST /api/v1/users", fields: form + "\nTransfer-Encoding: chunked", body: "5\r\nname=\r\n3\r\neve\r\n0\r\n\r\n"},
		{name: "user bad JSON", line: "POST /api/v1/users", fields: "Content-Type: application/json", body: `{"name":`},
		{name: "user without name", line: "POST /api/v1/users", fields: form, body: "nam=e"},
		{name: "user removed", line: "DELETE /api/v1/users/1"},
		{name: "users then", line: "GET /api/v1/users"},
		{name: "CORS", line: "GET /api/v1/users/2", fields: "Origin: https://a.example"},
		{name: "preflight", line: "OPTIONS /api/v1/users", fields: "Origin: https://a.example\nAccess-Control-Request-Method: POST"},
		{name: "login", line: "POST /login", fields: form, body: "user=ann"},
		{name: "login by query", line: "POST /login?user=bob"},
		{name: "login fails", line: "POST /login", fields: form, body: "user="},
		{name: "logout", line: "GET /account/logout"},
		{name: "whoami", line: "GET /whoami", fields: "Cookie: a=b; session=ann; c=d"},
		{name: "whoami, nobody", line: "GET /whoami"},
		{name: "echo", line: "GET /echo/a/b%20c/../d?x=1&y=%26&x=2&z", fields: "Referer: https://r.example/\nUser-Agent: test/1\nCookie: k=v; l=m"},
		{name: "echo absolute", line: "GET http://other.example/echo/x"},
		{name: "echo post", line: "POST /echo/x?q", fields: form, body: "a=b"},
		{name: "upload", line: "POST /upload", fields: multipart, body: formBody},
		{name: "upload, no form", line: "POST /upload", fields: form, body: "a=b"},
		{name: "upload, no file", line: "POST /upload", fields: multipart, body: strings.Replace(formBody, `"file"`, `"other"`, 1)},
		{name: "upload, broken", line: "POST /upload", fields: multipart, body: "--b\r\nno form"},
		{name: "panic", line: "GET /panic"},
		{name: "slow", line: "GET /slow"},
		{name: "report", line: "GET /report"},
		{name: "report gzip", line: "GET /report", fields: "Accept-Encoding: gzip"},
		{name: "report br", line: "GET /report", fields: "Accept-Encoding: gzip, deflate, br"},
		{name: "report deflate", line: "GET /report", fields: "Accept-Encoding: deflate"},
		{name: "admin", line: "GET /admin/stats/cpu", fields: "Authorization: Basic YWRtaW46c2VjcmV0"},
		{name: "admin, stranger", line: "GET /admin/stats/cpu"},
		{name: "100-continue", line: "POST /api/v1/users", fields: form + "\nExpect: 100-continue", body: "name=fay"},
		{name: "too large a body", line: "POST /echo/x", fields: form, body: strings.Repeat("x", 65<<10)},
		{name: "too large a head", line: "GET /", fields: "X-Long: " + strings.Repeat("x", 70<<10)},
		{name: "malformed", line: "GET /", fields: "Content-Length: x"},
		{name: "no host", line: "GET /", fields: "Host: "},
	}
}

func TestRouter(t *testing.T) {
	theirs, ours := both(t, "router")
	compare(t, theirs, ours, routerRequests(),
		difference{"S29: the body is there already", "100-continue", "interim answers"},
		difference{"S46: a form is parsed when the handler asks, so that it answers and not the ErrorHandler",
			"upload, broken", "body|Content-Length|X-Request-Id|connection"},
		difference{"F28: the answer depends on Accept-Encoding, whether it has come or not", "report", "Vary"})
}
