package middleware

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

func authorize(t *testing.T, wrap wrapper, fields ...string) (status int, challenge, user string) {
	t.Helper()
	ctx := request(t, append([]string{"GET / HTTP/1.1"}, fields...)...)
	wrap(func(ctx *sluice.RequestCtx) { user = "anonymous"; user = UserOf(ctx) })(ctx)
	return ctx.Response.StatusCode(), field(ctx, "WWW-Authenticate"), user
}

func TestBasicAuth(t *testing.T) {
	wrap := BasicAuth(`the "site"`, Accounts(map[string]string{"ann": "open: sesame", "bob": "b", "é": "ü"}))
	basic := func(plain string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(plain))
	}
	for _, c := range []struct {
		fields []string
		user   string // empty: refused
	}{
		{[]string{basic("ann:open: sesame")}, "ann"},
		{[]string{strings.Replace(basic("ann:open: sesame"), "Basic", "bAsIc", 1)}, "ann"},
		{[]string{basic("bob:b")}, "bob"},
		{[]string{basic("é:ü")}, "é"},
		{nil, ""},
		{[]string{"Authorization:"}, ""},
		{[]string{"Authorization: Basic"}, ""},
		{[]string{"Authorization: Basic ="}, ""},
		{[]string{"Authorization: Basic YW5u*"}, ""},
		{[]string{"Authorization: Basi " + base64.StdEncoding.EncodeToString([]byte("bob:b"))}, ""},
		{[]string{"Authorization: Bearer " + base64.StdEncoding.EncodeToString([]byte("bob:b"))}, ""},
		{[]string{basic("ann:")}, ""},
		{[]string{basic("ann:open")}, ""},
		{[]string{basic("ann:open: sesame ")}, ""},
		{[]string{basic("bob:open: sesame")}, ""}, // another user's password
		{[]string{basic("eve:open: sesame")}, ""},
		{[]string{basic("bob")}, ""},
		{[]string{basic("bob:")}, ""},
		{[]string{basic("bob:\x00")}, ""},
		{[]string{basic("bob:" + strings.Repeat("x", maxCredentials))}, ""},
	} {
		status, challenge, user := authorize(t, wrap, c.fields...)
		if user != c.user || c.user != "" && (status != 200 || challenge != "") ||
			c.user == "" && (status != 401 || challenge != `Basic realm="the \"site\"", charset="UTF-8"`) {
			t.Errorf("%q: %q, %d, %s", c.fields, user, status, challenge)
		}
	}
}

// A password from a variable that is not set does not let everybody in.
func TestAccountsWithoutPassword(t *testing.T) {
	message := panicOf(func() { Accounts(map[string]string{"ann": "open", "bob": ""}) })
	if !strings.HasPrefix(message, "sluice: Accounts: ") || !strings.Contains(message, `"bob"`) {
		t.Errorf("%q", message)
	}
}

func TestBearerAuth(t *testing.T) {
	wrap := BearerAuth("api", Tokens(map[string]string{"s3cret.token~1==": "deploy", "other": "ci"}))
	for _, c := range []struct {
		fields    []string
		user      string
		status    int
		challenge string
	}{
		{[]string{"Authorization: Bearer s3cret.token~1=="}, "deploy", 200, ""},
		{[]string{"authorization: BEARER  other"}, "ci", 200, ""},
		{nil, "", 401, `Bearer realm="api"`},
		{[]string{"Authorization: Basic other"}, "", 401, `Bearer realm="api"`},
		{[]string{"Authorization: Bearerother"}, "", 401, `Bearer realm="api"`},
		{[]string{"Authorization: Bearer"}, "", 400, `Bearer realm="api", error="invalid_request"`},
		{[]string{"Authorization: Bearer other,ci"}, "", 400, `Bearer realm="api", error="invalid_request"`},
		{[]string{"Authorization: Bearer ot her"}, "", 400, `Bearer realm="api", error="invalid_request"`},
		{[]string{"Authorization: Bearer othe"}, "", 401, `Bearer realm="api", error="invalid_token"`},
		{[]string{"Authorization: Bearer otherr"}, "", 401, `Bearer realm="api", error="invalid_token"`},
		{[]string{"Authorization: Bearer ci"}, "", 401, `Bearer realm="api", error="invalid_token"`},
	} {
		if status, challenge, user := authorize(t, wrap, c.fields...); user != c.user || status != c.status || challenge != c.challenge {
			t.Errorf("%q: %q, %d, %s", c.fields, user, status, challenge)
		}
	}
	// Tokens in URLs end in logs: they do not count.
	ctx := request(t, "GET /?access_token=other HTTP/1.1")
	if wrap(answer("in"))(ctx); ctx.Response.StatusCode() != 401 {
		t.Error(ctx.Response.StatusCode())
	}
}

func FuzzDecodeBasic(f *testing.F) {
	f.Add([]byte("YW5uOm9wZW4="))
	f.Add([]byte("=="))
	f.Fuzz(func(t *testing.T, token []byte) {
		user, password, ok := decodeBasic(token)
		if !ok {
			return
		}
		again := base64.StdEncoding.EncodeToString([]byte(string(user) + ":" + string(password)))
		if u, p, ok := decodeBasic([]byte(again)); !ok || string(u) != string(user) || string(p) != string(password) {
			t.Errorf("%q: %q %q", token, user, password)
		}
	})
}
