package uri

import (
	"errors"
	"testing"
)

// TestAppendCredentials: user-pass has one colon between its parts, and the user name has none
// (RFC 7617 section 2).
func TestAppendCredentials(t *testing.T) {
	for _, test := range []struct {
		username, password, want string
		err                      error
	}{
		{"", "", ":", nil},
		{"u", "", "u:", nil},
		{"", "p", ":p", nil},
		{"u@/", "p:q:", "u@/:p:q:", nil},
		{"\xc3\xa9", " ", "\xc3\xa9: ", nil},
		{"u:v", "p", "", ErrUserinfoColon},
		{"u\r", "p", "", ErrUserinfoControl},
		{"u", "p\n", "", ErrUserinfoControl},
		{"u", "\x00", "", ErrUserinfoControl},
		{"u\x7f", "p", "", ErrUserinfoControl},
	} {
		var u URI
		u.SetUsername([]byte("earlier"))
		u.SetPassword([]byte("earlier"))
		u.SetUsername([]byte(test.username))
		u.SetPassword([]byte(test.password))
		if string(u.Username()) != test.username || string(u.Password()) != test.password {
			t.Errorf("set %q and %q, got %q and %q", test.username, test.password, u.Username(), u.Password())
		}
		got, err := u.AppendCredentials([]byte("x"))
		if want := "x" + test.want; !errors.Is(err, test.err) || err == nil && string(got) != want || err != nil && got != nil {
			t.Errorf("%q, %q: %q, %v, want %q, %v", test.username, test.password, got, err, want, test.err)
		}
		if err := u.CheckCredentials(); !errors.Is(err, test.err) {
			t.Errorf("%q, %q: checked: %v, want %v", test.username, test.password, err, test.err)
		}
	}
}

// TestParseUserinfo: percent-encodings are decoded, and the last "@" ends the user information.
func TestParseUserinfo(t *testing.T) {
	for userinfo, want := range map[string][2]string{
		"u": {"u", ""}, "u:": {"u", ""}, ":p": {"", "p"}, "u:p:q": {"u", "p:q"}, "u%3Av:p%40": {"u:v", "p@"}, "a@b:c@d": {"a@b", "c@d"}, "": {"", ""},
	} {
		u := parsed(t, "http://"+userinfo+"@h/")
		if string(u.Username()) != want[0] || string(u.Password()) != want[1] || string(u.Host()) != "h" {
			t.Errorf("%q: user %q, password %q, host %q", userinfo, u.Username(), u.Password(), u.Host())
		}
		if got := text(u); got != "http://h/" {
			t.Errorf("%q: the user information is written: %q", userinfo, got)
		}
	}
	for _, userinfo := range []string{"u p", "u<", "u\xc3\xa9", "[u]"} {
		var u URI
		if err := u.Parse(nil, []byte("http://"+userinfo+"@h/")); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", userinfo, err)
		}
	}
}

// TestCopiesByAssignmentAreApart: a change of one of two URIs is not seen in the other.
func TestCopiesByAssignmentAreApart(t *testing.T) {
	const before = "http://h/p?q#f"
	for name, change := range map[string]func(u *URI){
		"SetUsername": func(u *URI) { u.SetUsername([]byte("x")) },
		"SetPassword": func(u *URI) { u.SetPassword([]byte("x")) },
		"SetScheme":   func(u *URI) { u.SetScheme([]byte("xxxx")) },
		"SetHost":     func(u *URI) { u.SetHost([]byte("x")) },
		"SetPath":     func(u *URI) { u.SetPath([]byte("/x")) },
		"SetQuery":    func(u *URI) { u.SetQuery([]byte("x")) },
		"SetHash":     func(u *URI) { u.SetHash([]byte("x")) },
		"Update":      func(u *URI) { _, _ = u.Update([]byte("//x/x?x#x")) },
		"Reset":       func(u *URI) { u.Reset(nil); u.SetHost([]byte("x")) },
	} {
		u := parsed(t, "http://u:p@h/p?q#f")
		u.SetHost([]byte("h"))
		copied := *u
		change(&copied)
		if text(u) != before || string(u.Username()) != "u" || string(u.Password()) != "p" {
			t.Errorf("%s of a copy changes the original to %q, %q, %q", name, text(u), u.Username(), u.Password())
		}
		if text(&copied) == before && string(copied.Username()) == "u" && string(copied.Password()) == "p" {
			t.Errorf("%s does not change the copy", name)
		}
	}
}
