package sluice

import "github.com/sluicehttp/sluice/internal/test/selfsigned"

// GenerateTestCertificate returns a new self-signed certificate for host and
// its key, both in PEM. host is a name or an IP address, with or without
// brackets. The certificate is valid for a year. It may sign, so that tests can
// add it to their roots. Do not use it in production: no authority vouches for
// it.
func GenerateTestCertificate(host string) (certPEM, keyPEM []byte, err error) {
	return selfsigned.PEM(host)
}
