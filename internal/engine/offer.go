package engine

import (
	"crypto/tls"
	"slices"
)

// ProtocolHTTP2 is the name of HTTP/2 over TLS in ALPN (RFC 9113 section 3.1).
const ProtocolHTTP2 = "h2"

// OfferProtocols returns a copy of config, for a listener, that offers others and HTTP/1.1
// too, and HTTP/2 if config has no list of its own. config may be nil. It is not changed:
// other servers and clients of the program may use it.
func OfferProtocols(config *tls.Config, speaksHTTP2 bool, others []string) *tls.Config {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	config.NextProtos = slices.Clone(config.NextProtos)
	if speaksHTTP2 && len(config.NextProtos) == 0 {
		config.NextProtos = append(config.NextProtos, ProtocolHTTP2)
	}
	for _, proto := range append(others, "http/1.1") {
		if !slices.Contains(config.NextProtos, proto) {
			config.NextProtos = append(config.NextProtos, proto)
		}
	}
	if speaksHTTP2 {
		withholdHTTP2(config)
	}
	return config
}

// withholdHTTP2 makes config not offer HTTP/2 to clients without TLS 1.2 (RFC 9113
// section 9.2).
func withholdHTTP2(config *tls.Config) {
	if config.MinVersion == 0 || config.MinVersion >= tls.VersionTLS12 || config.GetConfigForClient != nil {
		return
	}
	old := config.Clone()
	old.NextProtos = slices.DeleteFunc(slices.Clone(old.NextProtos), func(proto string) bool { return proto == ProtocolHTTP2 })
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.ContainsFunc(hello.SupportedVersions, func(v uint16) bool { return v >= tls.VersionTLS12 }) {
			return nil, nil
		}
		return old, nil
	}
}
