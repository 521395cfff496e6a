package message_test

// usualGet is what a client other than a browser sends, and usualHandler looks at it
// and answers as handlers do. Package bench measures the same over TCP.
const usualGet = "GET /articles?page=2 HTTP/1.1\r\nHost: www.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
	"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\r\n"
