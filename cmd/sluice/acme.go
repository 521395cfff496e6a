package main

import (
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/crypto/acme"
	"golang.org/x/net/idna"
)

// mostACMEHosts bounds the hosts of --acme: there is room for their certificates in the
// memory of workers.
const mostACMEHosts = 100

// acmeOptions are the flags for certificates of an authority that speaks ACME (RFC 8555).
type acmeOptions struct {
	hosts     []string
	email     string
	directory string
	cache     string
}

func (o *acmeOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.hosts, "acme", nil, "serve HTTPS with certificates for `HOSTS`, such as a.example,www.a.example, from Let's Encrypt or --acme-directory, whose terms you accept by this; it must reach port 443 of this server, or port 80 and --https-redirect")
	flags.StringVar(&o.email, "acme-email", "", "with --acme: the authority may write to `ADDRESS`")
	flags.StringVar(&o.directory, "acme-directory", acme.LetsEncryptURL, "with --acme: the `URL` of the authority, for tests or one of your own")
	flags.StringVar(&o.cache, "acme-cache", "", "with --acme: keep certificates and keys in `DIR`; default: a folder in that of systemd (StateDirectory=), or in the user's cache")
}

// isOn reports whether certificates come by ACME.
func (o *acmeOptions) isOn() bool { return len(o.hosts) > 0 }

// complete checks the flags and fills in where the cache is.
func (o *acmeOptions) complete() error {
	if !o.isOn() {
		if o.email != "" || o.cache != "" || o.directory != acme.LetsEncryptURL && o.directory != "" {
			return errors.New("--acme-email, --acme-directory and --acme-cache need --acme")
		}
		return nil
	}
	var hosts []string
	for _, host := range o.hosts {
		name, err := acmeName(host)
		if err != nil {
			return err
		}
		if !slices.Contains(hosts, name) {
			hosts = append(hosts, name)
		}
	}
	if len(hosts) > mostACMEHosts {
		return fmt.Errorf("--acme takes %d hosts at most, not %d", mostACMEHosts, len(hosts))
	}
	o.hosts = hosts
	if address, err := mail.ParseAddress(o.email); o.email != "" && (err != nil || address.Address != o.email) {
		return fmt.Errorf("--acme-email takes an address, such as me@a.example, not %q", o.email)
	}
	directory, err := url.Parse(o.directory)
	if err != nil || directory.Scheme != "https" || directory.Host == "" { // RFC 8555 section 6.1
		return fmt.Errorf("--acme-directory takes a URL with https, not %q", o.directory)
	}
	return o.placeCache(directory)
}

// placeCache makes the name of the cache's folder absolute, and that of one authority: a
// certificate of a test must not be taken for a real one.
func (o *acmeOptions) placeCache(directory *url.URL) error {
	if o.cache == "" {
		state, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
		if state == "" {
			user, err := os.UserCacheDir()
			if err != nil {
				return fmt.Errorf("there is no folder for the certificates, choose one with --acme-cache: %w", err)
			}
			state = filepath.Join(user, "sluice")
		}
		o.cache = filepath.Join(state, "acme")
	}
	authority := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, strings.ToLower(directory.Host+directory.Path))
	var err error
	o.cache, err = filepath.Abs(filepath.Join(o.cache, authority))
	return err
}

// acmeName returns a host as certificates name it.
func acmeName(host string) (string, error) {
	switch _, ipErr := netip.ParseAddr(host); {
	case strings.HasPrefix(host, "*"):
		return "", fmt.Errorf("--acme %s: an authority gives a certificate for all names below another by DNS only: name each host", host)
	case ipErr == nil:
		return "", fmt.Errorf("--acme %s is an address: it takes names of hosts", host)
	}
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	switch {
	case err != nil || name == "" || strings.HasPrefix(name, "."):
		return "", fmt.Errorf("--acme takes names of hosts, such as a.example,www.a.example, not %q", host)
	case !strings.Contains(name, "."):
		return "", fmt.Errorf("--acme %s: no authority knows a name without a dot; --tls-self-signed needs none", host)
	}
	return name, nil
}

// openCache makes the folder of the cache, or fails if nothing can be written there.
func (o *acmeOptions) openCache() error {
	err := os.MkdirAll(o.cache, 0o700)
	var probe *os.File
	if err == nil {
		probe, err = os.CreateTemp(o.cache, ".probe")
	}
	if err != nil {
		return fmt.Errorf("cannot keep certificates in %s, choose another folder with --acme-cache: %w", o.cache, reasonOf(err))
	}
	probe.Close()
	return os.Remove(probe.Name())
}
