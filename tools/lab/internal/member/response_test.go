//go:build linux

package member

import "testing"

func TestResponseSize(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "HTTP/1.1 200 OK\r\n": 0,
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP":             41,
		"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 0\r\nC: d\r\n\r\n":    50,
		"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nabc":                 -1,
		"HTTP/1.1 200 OK\r\n\r\n":                                         -1,
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n":                    -1,
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n":                   -1,
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all of it yet": 140,
	} {
		got, err := responseSize([]byte(in))
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, %v, want %d", in, got, err, want)
		}
	}
}

func TestProve(t *testing.T) {
	for _, zeros := range []int{1, 4, 8, 12} {
		first := prove(42, zeros)
		if again := prove(42, zeros); again != first {
			t.Errorf("%d bits: %d, then %d", zeros, first, again)
		}
		if zeros > 1 && first < prove(42, zeros-1) {
			t.Errorf("%d bits are found before %d", zeros, zeros-1)
		}
	}
}
