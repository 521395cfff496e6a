package message_test

import (
	"bufio"
	"encoding/base64"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/uri"
	"github.com/sluicehttp/sluice/test/harness"
)

// writtenCredentials returns the user-pass that a request is written with.
func writtenCredentials(t *testing.T, r *sluice.Request) (string, error) {
	t.Helper()
	if err := r.Write(bufio.NewWriter(io.Discard)); err != nil {
		return "", err
	}
	text, found := strings.CutPrefix(string(r.Header.Peek("Authorization")), "Basic ")
	credentials, err := base64.StdEncoding.DecodeString(text)
	if !found || err != nil {
		t.Errorf("Authorization %q", r.Header.Peek("Authorization"))
	}
	return string(credentials), nil
}

// TestUserInformationIsDecoded: the user information of a parsed URI is decoded, that
// of the setters is as it is.
func TestUserInformationIsDecoded(t *testing.T) {
	for name, c := range map[string]struct {
		set            func(r *sluice.Request)
		user, password string
		want           string
		err            error
	}{
		"plain":           {func(r *sluice.Request) { r.SetRequestURI("http://u:p@h/") }, "u", "p", "u:p", nil},
		"escaped":         {func(r *sluice.Request) { r.SetRequestURI("http://us%40er:p%3A%2F%C3%A9@h/") }, "us@er", "p:/é", "us@er:p:/é", nil},
		"once":            {func(r *sluice.Request) { r.SetRequestURI("http://%2541:%252B+@h/") }, "%41", "%2B+", "%41:%2B+", nil},
		"with a Host":     {func(r *sluice.Request) { r.SetRequestURI("http://us%40er:p@h/"); r.Header.SetHost("x"); r.URI() }, "us@er", "p", "us@er:p", nil},
		"absolute target": {func(r *sluice.Request) { r.SetRequestURI("http://us%40er:p@h/"); r.Header.SetHost("x") }, "", "", "us@er:p", nil},
		"redirected":      {func(r *sluice.Request) { r.SetRequestURI("http://h/"); r.URI().Update("http://us%40er:p@h/x") }, "us@er", "p", "us@er:p", nil},
		"a copy": {func(r *sluice.Request) {
			var from sluice.URI
			if err := from.Parse(nil, []byte("http://us%40er:p%40@h/")); err != nil {
				t.Error(err)
			}
			r.SetURI(&from)
		}, "us@er", "p@", "us@er:p@", nil},
		"set": {func(r *sluice.Request) {
			r.SetRequestURI("http://a%40:b%40@h/")
			r.URI().SetUsername("us%40er@")
			r.URI().SetPasswordBytes([]byte("50%:@é"))
		}, "us%40er@", "50%:@é", "us%40er@:50%:@é", nil},
		"one is set": {func(r *sluice.Request) { r.SetRequestURI("http://a%40:b%40@h/"); r.URI().SetPassword("%41") }, "a@", "%41", "a@:%41", nil},
		"used again": {func(r *sluice.Request) {
			r.SetRequestURI("http://a%40:b@h/")
			r.URI().Reset()
			r.URI().SetHost("h")
			r.URI().SetUsernameBytes([]byte("%41"))
		}, "%41", "", "%41:", nil},
		"bad escape":           {func(r *sluice.Request) { r.SetRequestURI("http://u%4:p@h/") }, "u%4", "p", "u%4:p", nil},
		"bad escape, password": {func(r *sluice.Request) { r.SetRequestURI("http://u:%zz@h/") }, "u", "%zz", "u:%zz", nil},
		"bad escape, Host set": {func(r *sluice.Request) { r.SetRequestURI("http://u:%zz@h/"); r.Header.SetHost("x") }, "", "", "u:%zz", nil},
		"line end":             {func(r *sluice.Request) { r.SetRequestURI("http://u%0D%0A:p@h/") }, "u\r\n", "p", "", uri.ErrUserinfoControl},
		"NUL":                  {func(r *sluice.Request) { r.SetRequestURI("http://u:p%00@h/") }, "u", "p\x00", "", uri.ErrUserinfoControl},
		"DEL":                  {func(r *sluice.Request) { r.SetRequestURI("http://u:p%7f@h/") }, "u", "p\x7f", "", uri.ErrUserinfoControl},
		"control set":          {func(r *sluice.Request) { r.SetRequestURI("http://h/"); r.URI().SetUsername("u\n") }, "u\n", "", "", uri.ErrUserinfoControl},
		"colon":                {func(r *sluice.Request) { r.SetRequestURI("http://u%3Av:p@h/") }, "u:v", "p", "", uri.ErrUserinfoColon},
		"colon first":          {func(r *sluice.Request) { r.SetRequestURI("http://%3Au:p@h/") }, ":u", "p", "", uri.ErrUserinfoColon},
		"colon set":            {func(r *sluice.Request) { r.SetRequestURI("http://h/"); r.URI().SetUsername("u:v") }, "u:v", "", "", uri.ErrUserinfoColon},
	} {
		var r sluice.Request
		c.set(&r)
		if got, err := writtenCredentials(t, &r); got != c.want || err != c.err {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, err, c.want, c.err)
		}
		if c.user != "" && (string(r.URI().Username()) != c.user || string(r.URI().Password()) != c.password) {
			t.Errorf("%s: %q, %q", name, r.URI().Username(), r.URI().Password())
		}
	}
}

// TestUserInformationBesideAuthorization: user information is for requests whose
// Authorization the caller has not set, whatever sends them.
func TestUserInformationBesideAuthorization(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		for r := c.Request(); r != nil; r = c.Request() {
			auth := strings.Join(strings.Fields(string(r.Header.Peek("Authorization"))), " ")
			if target, ok := strings.CutPrefix(string(r.RequestURI()), "/to?"); ok {
				c.Send("HTTP/1.1 302 R\r\nLocation: " + target + "\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			c.Send("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(auth)) + "\r\n\r\n" + auth)
		}
	})
	a := p.Addr()
	for name, do := range map[string]func(req *sluice.Request, resp *sluice.Response) error{
		"Client":         (&sluice.Client{}).Do,
		"HostClient":     p.Host().Do,
		"PipelineClient": (&sluice.PipelineClient{Addr: a}).Do,
		"DoTimeout": func(req *sluice.Request, resp *sluice.Response) error {
			return p.Host().DoTimeout(req, resp, time.Minute)
		},
		"DoRedirects": func(req *sluice.Request, resp *sluice.Response) error { return p.Host().DoRedirects(req, resp, 2) },
		"LBClient": func(req *sluice.Request, resp *sluice.Response) error {
			return (&sluice.LBClient{Clients: []sluice.BalancingClient{p.Host()}}).Do(req, resp)
		},
	} {
		for _, test := range []struct{ url, name, set, want string }{
			{"http://u:p@" + a + "/", "", "", "Basic dTpw"},
			{"http://u:p@" + a + "/", "Authorization", "Bearer t", "Bearer t"},
			{"http://u:p@" + a + "/", "Authorization", "", ""},
			{"http://u:p@" + a + "/", "authorization", "Bearer t", "Bearer t"},
			{"http://u%0A:p@" + a + "/", "Authorization", "Bearer t", "Bearer t"},
			{"http://u:p@" + a + "/to?/x", "", "", "Basic dTpw"},
			{"http://u:p@" + a + "/to?http://" + a + "/x", "", "", "Basic dTpw"},
			{"http://u:p@" + a + "/to?http://v:w@" + a + "/x", "", "", "Basic djp3"},
			{"http://" + a + "/to?//v:w@" + a + "/x", "", "", "Basic djp3"},
			{"http://" + a + "/to?//v:w@" + a + "/x", "Authorization", "Bearer t", "Bearer t"},
			{"http://u:p@" + a + "/to?http://v:w@" + a + "/x", "Authorization", "Bearer t", "Bearer t"},
		} {
			if strings.Contains(test.url, "/to") && name != "DoRedirects" {
				continue
			}
			req, resp := harness.NewCall("GET", test.url)
			if test.name != "" {
				req.Header.SetCanonical([]byte(test.name), []byte(test.set))
			}
			if err := do(req, resp); err != nil || string(resp.Body()) != test.want {
				t.Errorf("%s, %s, %q: %q, %v, want %q", name, test.url, test.set, resp.Body(), err, test.want)
			}
		}
	}
	c := &sluice.Client{}
	for _, url := range []string{"http://u:p@" + a + "/", "http://u:p@" + a + "/to?/x"} {
		if _, body, err := c.Get(nil, url); err != nil || string(body) != "Basic dTpw" {
			t.Errorf("Get of %s: %q, %v", url, body, err)
		}
	}
}

// TestUserInformationGoesWithItsURI: a request that is used again sends what its present URI
// says, or what the caller has set.
func TestUserInformationGoesWithItsURI(t *testing.T) {
	r := new(sluice.Request)
	for _, step := range []struct {
		change func(r *sluice.Request)
		want   string
	}{
		{func(r *sluice.Request) { r.SetRequestURI("http://u:p@h/") }, "Basic dTpw"},
		{func(*sluice.Request) {}, "Basic dTpw"},
		{func(r *sluice.Request) { r.URI().SetPassword("q") }, "Basic dTpx"},
		{func(r *sluice.Request) { r.SetRequestURI("http://v:w@k/") }, "Basic djp3"},
		{func(r *sluice.Request) { r.SetRequestURI("http://k/") }, ""},
		{func(r *sluice.Request) { r.SetRequestURI("http://v:w@k/") }, "Basic djp3"},
		{func(*sluice.Request) { other := new(sluice.Request); r.CopyTo(other); r = other }, "Basic djp3"},
		{func(*sluice.Request) { r.SetRequestURI("http://h/") }, ""},
		{func(r *sluice.Request) { r.SetRequestURI("http://v:w@k/") }, "Basic djp3"},
		{func(r *sluice.Request) { r.Header.Set("Authorization", "Bearer t") }, "Bearer t"},
		{func(r *sluice.Request) { r.SetRequestURI("http://u:p@h/") }, "Bearer t"},
		{func(r *sluice.Request) { r.SetRequestURI("http://h/") }, "Bearer t"},
		{func(r *sluice.Request) { r.Header.Del("Authorization"); r.SetRequestURI("http://u:p@h/") }, "Basic dTpw"},
		{func(r *sluice.Request) { r.Header.Add("Authorization", "Bearer t") }, "Basic dTpw"},
		{func(r *sluice.Request) {
			r.Reset()
			r.SetRequestURI("http://h/")
			r.Header.Set("Authorization", "Basic dTpw")
		}, "Basic dTpw"},
		{func(r *sluice.Request) { r.SetRequestURI("http://v:w@k/") }, "Basic dTpw"},
		{func(r *sluice.Request) { r.SetRequestURI("http://k/") }, "Basic dTpw"},
	} {
		step.change(r)
		r.URI() // as clients do
		if err := r.Write(bufio.NewWriter(io.Discard)); err != nil || string(r.Header.Peek("Authorization")) != step.want {
			t.Errorf("%s: %q, %v, want %q", r.URI(), r.Header.Peek("Authorization"), err, step.want)
		}
	}
}
