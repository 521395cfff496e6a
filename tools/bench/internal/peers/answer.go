package peers

import (
	"encoding/json"
	"fmt"
	"strings"
)

// An Answer says what a handler answers.
type Answer string

// Answers. Those of AnswerHello are Body, as ContentType.
const (
	AnswerHello Answer = ""
	AnswerLarge Answer = "large" // LargeSize bytes
	AnswerJSON  Answer = "JSON"  // encoding/json's, made for each request
	AnswerGzip  Answer = "gzip"  // Text, compressed for each request
	AnswerFile  Answer = "file"  // of Options.Root, served as files are
)

const (
	// LargeSize is the length of AnswerLarge, in bytes.
	LargeSize = 100 << 10
	// HugeSize is the length of the answer to HugePath, in bytes.
	HugeSize = 100 << 20
	// FreshSize is the length of the answer to FreshPath, in bytes.
	FreshSize = 256 << 10
	// GzipLevel is the level of AnswerGzip.
	GzipLevel = 6
)

// Text returns the text of AnswerGzip, and of files: 10 KiB that compress to a
// quarter or so.
func Text() []byte {
	const size = 10 << 10
	words := strings.Fields("a river carries what it is given and keeps nothing of it for long while the banks stay where they were")
	var text strings.Builder
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, "%s %x ", words[i*i%len(words)], i*2654435761%4093)
	}
	return []byte(text.String()[:size])
}

// message is what AnswerJSON says.
type message struct {
	Message string   `json:"message"`
	ID      int      `json:"id"`
	Tags    []string `json:"tags"`
}

// JSONBody returns the body of AnswerJSON.
func JSONBody() []byte {
	body, _ := json.Marshal(message{Message: Body, ID: 42, Tags: []string{"first", "second"}}) // cannot fail
	return body
}

// content is what a handler writes for each request.
type content struct {
	contentType string
	body        func() []byte // what it returned is not changed later
}

func (a Answer) content() (content, error) {
	constant := func(body []byte) func() []byte { return func() []byte { return body } }
	switch a {
	case AnswerHello:
		return content{ContentType, constant([]byte(Body))}, nil
	case AnswerLarge:
		return content{ContentType, constant(Large())}, nil
	case AnswerJSON:
		return content{"application/json", JSONBody}, nil
	case AnswerGzip:
		return content{ContentType, constant(Text())}, nil
	}
	return content{}, fmt.Errorf("no answer %q", a)
}

// Large returns the body of AnswerLarge.
func Large() []byte { return []byte(strings.Repeat("0123456789abcdef", LargeSize/16)) }
