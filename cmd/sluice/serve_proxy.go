package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/sluicehttp/sluice"
	"github.com/spf13/pflag"
)

// proxyOptions are the flags for a proxy in front of "sluice serve".
type proxyOptions struct {
	protocol sluice.ProxyProtocol
	texts    []string
	trusted  []netip.Prefix // texts
}

func (o *proxyOptions) addFlags(flags *pflag.FlagSet) {
	flags.TextVar(&o.protocol, "proxy-protocol", sluice.ProxyProtocolOff, "the proxies of --proxy-trusted tell whose connection it is, by the PROXY protocol: off, accept, or require, which refuses all other connections")
	flags.StringSliceVar(&o.texts, "proxy-trusted", nil, "with --proxy-protocol: the `NETWORKS` of the proxies, such as 10.0.0.0/8,192.0.2.7")
}

// complete checks the flags.
func (o *proxyOptions) complete() error {
	for _, text := range o.texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			ip, ipErr := netip.ParseAddr(text)
			if ipErr != nil || ip.Zone() != "" {
				return fmt.Errorf("--proxy-trusted takes networks and addresses, such as 10.0.0.0/8,192.0.2.7, not %q", text)
			}
			p = netip.PrefixFrom(ip, ip.BitLen())
		}
		o.trusted = append(o.trusted, p)
	}
	switch isOn := o.protocol != sluice.ProxyProtocolOff; {
	case isOn && len(o.trusted) == 0:
		return errors.New("--proxy-protocol needs --proxy-trusted: a peer that may send its header can claim any address")
	case !isOn && len(o.trusted) > 0:
		return errors.New("--proxy-trusted needs --proxy-protocol accept or require")
	}
	return nil
}

// set gives the settings to a server.
func (o *proxyOptions) set(s *sluice.Server) {
	s.ProxyProtocol, s.ProxyTrusted = o.protocol, o.trusted
}
