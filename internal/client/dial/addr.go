package dial

import "strings"

// AddMissingPort returns addr with port 80, or 443 if isTLS, unless addr has a
// port, is empty, or is an IPv6 address without brackets.
func AddMissingPort(addr string, isTLS bool) string {
	hasNoPort := strings.IndexByte(addr, ':') < 0 && !strings.HasPrefix(addr, "[") ||
		strings.HasPrefix(addr, "[") && strings.HasSuffix(addr, "]")
	switch {
	case addr == "" || !hasNoPort:
		return addr
	case isTLS:
		return addr + ":443"
	}
	return addr + ":80"
}

// Addrs returns the addresses of a list with commas, with their ports. isVerbatim: a
// custom dialer gets them, which may be anything: the path of a socket, for example, or
// nothing.
func Addrs(list string, isTLS, isVerbatim bool) (addrs []string) {
	for addr := range strings.SplitSeq(list, ",") {
		addr = strings.TrimSpace(addr)
		switch {
		case addr != "" && !isVerbatim:
			addrs = append(addrs, AddMissingPort(addr, isTLS))
		case addr != "" || list == "" && isVerbatim:
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
