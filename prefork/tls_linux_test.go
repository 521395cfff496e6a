package prefork

import (
	"bufio"
	"crypto/tls"
)

// getTLS sends a request over TLS.
func getTLS(addr string) (string, error) {
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return "", err
	}
	defer c.Close()
	body, _, err := ask(c, bufio.NewReader(c), "/")
	return body, err
}
