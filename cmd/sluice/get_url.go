package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// completeURL checks the URL, adds a scheme where there is none, and takes the
// credentials out of it.
func (o *getOptions) completeURL() error {
	if !strings.Contains(o.url, "://") {
		o.url = "http://" + o.url
	}
	u, err := url.Parse(o.url)
	if err != nil {
		return fmt.Errorf("URL: %w", errors.Unwrap(err))
	}
	switch scheme := strings.ToLower(u.Scheme); {
	case scheme != "http" && scheme != "https":
		return fmt.Errorf("URL: %s is neither http nor https", u.Scheme)
	case u.Hostname() == "":
		return errors.New("URL: there is no host")
	}
	if u.User != nil {
		if o.user == "" {
			if o.user, err = userOf(u); err != nil {
				return err
			}
		}
		// It must not show up in errors.
		u.User = nil
		o.url = u.String()
	}
	return nil
}

// userOf returns NAME:PASSWORD of a URL, decoded; ":" if it has none. Errors do not
// repeat them.
func userOf(u *url.URL) (string, error) {
	password, _ := u.User.Password()
	user := u.User.Username() + ":" + password
	switch {
	case strings.Contains(u.User.Username(), ":"):
		return "", errors.New("URL: there is a colon in the user name, where Basic authentication has none")
	case strings.ContainsFunc(user, unicode.IsControl):
		return "", errors.New("URL: there is a control character in the user name or the password")
	}
	return user, nil
}

// isToken checks the name of a field or a method (RFC 9110 section 5.6.2).
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// splitHeader returns what --header says: a field, or one to leave out.
func splitHeader(text string) (name, value string, isLeftOut bool) {
	name, value, hasColon := strings.Cut(text, ":")
	if !hasColon {
		return strings.TrimSuffix(text, ";"), "", !strings.HasSuffix(text, ";")
	}
	value = strings.TrimSpace(value)
	return name, value, value == ""
}

// checkHeaders finds what is no field.
func checkHeaders(headers []string) error {
	for _, text := range headers {
		name, value, isLeftOut := splitHeader(text)
		switch {
		case !strings.Contains(text, ":") && isLeftOut:
			return fmt.Errorf("--header %q: there is no colon", text)
		case !isToken(name):
			return fmt.Errorf("--header %q: %q is not a field's name", text, name)
		case strings.ContainsAny(value, "\r\n\x00"):
			return fmt.Errorf("--header %q: there is a line break in it", name)
		case strings.EqualFold(name, "Transfer-Encoding"), strings.EqualFold(name, "Content-Length"):
			return fmt.Errorf("--header %q: that follows from the body", name)
		}
	}
	return nil
}
