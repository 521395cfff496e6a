package sluice

import (
	"bufio"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/uri"
)

// writtenCredentials returns the user-pass that a request is written with.
func writtenCredentials(t *testing.T, r *Request) (string, error) {
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

// TestUserInformationIsDecoded: what is sent is decoded; what Username and
// Password return is not.
func TestUserInformationIsDecoded(t *testing.T) {
	for name, c := range map[string]struct {
		set            func(r *Request)
		user, password string
		want           string
		err            error
	}{
		"plain":           {func(r *Request) { r.SetRequestURI("http://u:p@h/") }, "u", "p", "u:p", nil},
		"escaped":         {func(r *Request) { r.SetRequestURI("http://us%40er:p%3A%2F%C3%A9@h/") }, "us%40er", "p%3A%2F%C3%A9", "us@er:p:/é", nil},
		"once":            {func(r *Request) { r.SetRequestURI("http://%2541:%252B+@h/") }, "%2541", "%252B+", "%41:%2B+", nil},
		"with a Host":     {func(r *Request) { r.SetRequestURI("http://us%40er:p@h/"); r.Header.SetHost("x"); r.URI() }, "us%40er", "p", "us@er:p", nil},
		"absolute target": {func(r *Request) { r.SetRequestURI("http://us%40er:p@h/"); r.Header.SetHost("x") }, "", "", "us@er:p", nil},
		"redirected":      {func(r *Request) { r.SetRequestURI("http://h/"); r.URI().Update("http://us%40er:p@h/x") }, "us%40er", "p", "us@er:p", nil},
		"a copy": {func(r *Request) {
			var from URI
			if err := from.Parse(nil, []byte("http://us%40er:p%40@h/")); err != nil {
				t.Error(err)
			}
			r.SetURI(&from)
		}, "us%40er", "p%40", "us@er:p@", nil},
		"set": {func(r *Request) {
			r.SetRequestURI("http://a%40:b%40@h/")
			r.URI().SetUsername("us%40er@")
			r.URI().SetPasswordBytes([]byte("50%:@é"))
		}, "us%40er@", "50%:@é", "us%40er@:50%:@é", nil},
		"one is set": {func(r *Request) { r.SetRequestURI("http://a%40:b%40@h/"); r.URI().SetPassword("%41") }, "a%40", "%41", "a@:%41", nil},
		"used again": {func(r *Request) {
			r.SetRequestURI("http://a%40:b@h/")
			r.URI().Reset()
			r.URI().SetHost("h")
			r.URI().SetUsernameBytes([]byte("%41"))
		}, "%41", "", "%41:", nil},
		"bad escape":           {func(r *Request) { r.SetRequestURI("http://u%4:p@h/") }, "u%4", "p", "", uri.ErrUserinfoEscape},
		"bad escape, password": {func(r *Request) { r.SetRequestURI("http://u:%zz@h/") }, "u", "%zz", "", uri.ErrUserinfoEscape},
		"bad escape, Host set": {func(r *Request) { r.SetRequestURI("http://u:%zz@h/"); r.Header.SetHost("x") }, "", "", "", uri.ErrUserinfoEscape},
		"line end":             {func(r *Request) { r.SetRequestURI("http://u%0D%0A:p@h/") }, "u%0D%0A", "p", "", uri.ErrUserinfoControl},
		"NUL":                  {func(r *Request) { r.SetRequestURI("http://u:p%00@h/") }, "u", "p%00", "", uri.ErrUserinfoControl},
		"DEL":                  {func(r *Request) { r.SetRequestURI("http://u:p%7f@h/") }, "u", "p%7f", "", uri.ErrUserinfoControl},
		"control set":          {func(r *Request) { r.SetRequestURI("http://h/"); r.URI().SetUsername("u\n") }, "u\n", "", "", uri.ErrUserinfoControl},
		"colon":                {func(r *Request) { r.SetRequestURI("http://u%3Av:p@h/") }, "u%3Av", "p", "", uri.ErrUserinfoColon},
		"colon first":          {func(r *Request) { r.SetRequestURI("http://%3Au:p@h/") }, "%3Au", "p", "", uri.ErrUserinfoColon},
		"colon set":            {func(r *Request) { r.SetRequestURI("http://h/"); r.URI().SetUsername("u:v") }, "u:v", "", "", uri.ErrUserinfoColon},
	} {
		var r Request
		c.set(&r)
		if got, err := writtenCredentials(t, &r); got != c.want || err != c.err {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, err, c.want, c.err)
		}
		if c.user != "" && (string(r.URI().Username()) != c.user || string(r.URI().Password()) != c.password) {
			t.Errorf("%s: %q, %q", name, r.URI().Username(), r.URI().Password())
		}
	}
}
