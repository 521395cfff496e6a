package load

import (
	"fmt"
	"strings"
)

// A Head is what the requests of a case say besides what the load needs. What a server
// saves by reading less of it depends on its length.
type Head uint8

const (
	TwoFields Head = iota // Host and User-Agent, as programs send
	Browser               // 12 fields, some 650 bytes, as browsers send
)

// String returns what the tables say.
func (h Head) String() string {
	if h == Browser {
		return "browser"
	}
	return "two fields"
}

// ParseHeads reads the flag --head.
func ParseHeads(text string) ([]Head, error) {
	switch text {
	case "two":
		return []Head{TwoFields}, nil
	case "browser":
		return []Head{Browser}, nil
	case "both":
		return []Head{TwoFields, Browser}, nil
	}
	return nil, fmt.Errorf("--head %q: want two, browser or both", text)
}

// Lines returns the field lines of the head, with those that the load needs.
func (h Head) Lines(needed string) string {
	if h == TwoFields {
		return "Host: www.example.com\r\nUser-Agent: bench\r\n" + needed
	}
	encodings := "Accept-Encoding: gzip, deflate, br, zstd\r\n"
	if strings.HasPrefix(needed, "Accept-Encoding:") {
		encodings = ""
	}
	return "Host: www.example.com\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
		"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n" +
		"Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n" + encodings +
		"Referer: http://www.example.com/articles/2026/11/\r\n" +
		"Cookie: session=2f7d9c1e8a6b4350; theme=dark; consent=all; _ga=GA1.1.1234567890.1700000000; _gid=GA1.1.987654321.1700000000; cart=8e1f0c7a5b3d9246f01e; last=%2Farticles%2F2026%2F10%2F\r\n" +
		"Upgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\nCache-Control: max-age=0\r\n" + needed
}
