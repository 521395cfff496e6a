package hold

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// The holder and a manager exchange frames over a stream socket. A frame is a head, a byte
// for each further batch of descriptors, and a payload in JSON. The first batch of
// descriptors arrives with the head:
//
//	0 length of the payload u32   4 number of descriptors u16   6 zero
const (
	headSize   = 8
	maxPayload = 8 << 20
	// batch is the number of descriptors of one sendmsg. The kernel's limit is 253.
	batch    = 200
	maxFiles = 4096
	// sendPatience bounds the wait for a peer that does not read, and for the user's descriptors that are in flight.
	sendPatience = 10 * time.Second
	// flightPause is between two attempts to send descriptors when too many are in flight.
	flightPause = 10 * time.Millisecond
)

// kind says what a frame is about.
type kind uint8

const (
	// From a manager. An answer has the Seq of its question.
	kindConnect kind = iota + 1 // it reads: send what is held
	kindPut                     // Name, Data, files; Seq, if there are files
	kindDrop                    // Name
	kindStart                   // Seq, Name, Process; files: those of the process, then Kept of them to be kept
	kindSignal                  // Name, Number
	kindForget                  // Name
	kindReady                   // it can manage
	kindRefuse                  // it cannot: Text
	kindProbe                   // Seq, Name of the binary: can it manage?
	kindReplace                 // the same, and the new manager waits
	kindDismiss                 // the new manager is not needed
	kindYield                   // the new manager takes over
	kindOver                    // the service has ended: Data
	kindHeard                   // Number: it has got the signal
	// From the holder.
	kindHeld      // Name, Data, files: an entry
	kindPreview   // Manages, Children: these are all; the manager is not to act yet
	kindManage    // the same; it manages from now on; Number: what the holder can
	kindStarted   // Seq, Number: pid, or an error: Text and Data
	kindExited    // Name, Text
	kindSignalled // Number
	kindAnswer    // Seq, and an error, if there is one: Text and Data
)

// answersPut is the Number in kindManage of a holder that answers a kindPut with a Seq. Managers
// may be newer than their holder.
const answersPut = 1

// A frame is one message.
type frame struct {
	Kind     kind
	Seq      int                `json:",omitempty"`
	Name     string             `json:",omitempty"`
	Number   int                `json:",omitempty"`
	Kept     int                `json:",omitempty"`
	Text     string             `json:",omitempty"`
	Manages  string             `json:",omitempty"`
	Data     []byte             `json:",omitempty"`
	Process  *supervise.Process `json:",omitempty"`
	Children map[string]int     `json:",omitempty"`

	files []*os.File
	// lost says why the files are missing: this process could not take all of them. There are
	// none then, and the sender is to be told.
	lost error
}

// A conn is one end of the socket. Any goroutine may send, only one may receive.
type conn struct {
	socket *net.UnixConn
	mu     sync.Mutex // held while a frame is sent
}

// newConn returns a conn on a socket, and closes f.
func newConn(f *os.File) (*conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if failed := (*net.OpError)(nil); errors.As(err, &failed) {
		err = failed.Err // the rest says nothing
	}
	if err != nil {
		return nil, err
	}
	socket, isUnix := c.(*net.UnixConn)
	if !isUnix {
		c.Close()
		return nil, fmt.Errorf("sluice: the holder's socket is of %s", c.LocalAddr().Network())
	}
	return &conn{socket: socket}, nil
}

// newPair returns the holder's end and the file that a manager inherits.
func newPair() (*conn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "holder")
	ours, err := newConn(os.NewFile(uintptr(pair[0]), "manager"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// send sends f. The caller keeps f's files. An error ends the connection if a part was sent.
func (c *conn) send(f frame) (err error) {
	payload, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if len(payload) > maxPayload || len(f.files) > maxFiles {
		return fmt.Errorf("sluice: a frame of %d bytes and %d files is too large for the holder", len(payload), len(f.files))
	}
	var head [headSize]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(payload)))
	binary.LittleEndian.PutUint16(head[4:], uint16(len(f.files)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.socket.SetWriteDeadline(time.Now().Add(2 * sendPatience)) // what follows a wait has as long again
	hasBegun := false
	defer func() {
		if err != nil && hasBegun { // what followed would be misread
			c.socket.Close()
		}
	}()
	for part, rest := head[:], f.files; ; part = head[headSize-1:] {
		some := rest[:min(len(rest), batch)]
		if err := c.sendFiles(part, some); err != nil {
			return err
		}
		hasBegun = true
		if rest = rest[len(some):]; len(rest) == 0 {
			break
		}
	}
	_, err = c.socket.Write(payload)
	return err
}

// sendFiles sends bytes with descriptors. The system bounds the descriptors of a user that were sent
// and not received, by all processes together: it waits until there are fewer.
func (c *conn) sendFiles(bytes []byte, files []*os.File) error {
	return withDescriptors(files, nil, func(descriptors []int) error {
		var rights []byte
		if len(descriptors) > 0 {
			rights = unix.UnixRights(descriptors...)
		}
		n, _, err := c.socket.WriteMsgUnix(bytes, rights, nil)
		for began := time.Now(); errors.Is(err, unix.ETOOMANYREFS) && time.Since(began) < sendPatience; {
			time.Sleep(flightPause)
			n, _, err = c.socket.WriteMsgUnix(bytes, rights, nil)
		}
		if errors.Is(err, unix.ETOOMANYREFS) {
			return withLimit(errInFlight)
		}
		if err == nil && n < len(bytes) {
			_, err = c.socket.Write(bytes[n:])
		}
		return err
	})
}

// withDescriptors calls do with descriptors and those of files. It needs no others, and unlike
// os.File.Fd it leaves the flags of sockets alone, which other processes use.
func withDescriptors(files []*os.File, descriptors []int, do func([]int) error) (err error) {
	if len(files) == 0 {
		return do(descriptors)
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) {
		err = withDescriptors(files[1:], append(descriptors, int(fd)), do)
	})
	if controlErr != nil {
		return controlErr
	}
	return err
}

// duplicate returns a duplicate of f's descriptor. It leaves the flags of the socket alone.
func duplicate(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	controlErr := raw.Control(func(original uintptr) {
		fd, err = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	})
	if controlErr != nil {
		return -1, controlErr
	}
	return fd, os.NewSyscallError("fcntl", err)
}

// receive waits for a frame. The caller owns its files. An error ends the connection; that files
// are lost does not.
func (c *conn) receive() (f frame, err error) {
	var got arrival
	defer func() { closeDescriptors(got.descriptors) }()
	var head [headSize]byte
	if err := c.receiveFiles(head[:], &got); err != nil {
		return f, err
	}
	size, count := binary.LittleEndian.Uint32(head[:]), int(binary.LittleEndian.Uint16(head[4:]))
	if size > maxPayload || count > maxFiles {
		return f, fmt.Errorf("sluice: a frame of %d bytes and %d files", size, count)
	}
	for n := batch; n < count; n += batch {
		if err := c.receiveFiles(head[:1], &got); err != nil {
			return f, err
		}
	}
	arrived := len(got.descriptors)
	if arrived != count && !got.isCut {
		return f, fmt.Errorf("sluice: %d of %d descriptors have arrived", arrived, count)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(c.socket, payload); err != nil {
		return f, err
	}
	if err := json.Unmarshal(payload, &f); err != nil {
		return f, fmt.Errorf("sluice: a frame: %w", err)
	}
	if got.isCut {
		f.lost = fmt.Errorf("%d of %d descriptors of %q have arrived: %w", arrived, count, f.Name, withLimit(unix.EMFILE))
		return f, nil
	}
	for len(got.descriptors) > 0 {
		file, err := plainFile(got.descriptors[0], f.Name)
		got.descriptors = got.descriptors[1:] // plainFile has closed it
		if err != nil {
			closeFiles(f.files)
			f.files, f.lost = nil, withLimit(err)
			return f, nil
		}
		f.files = append(f.files, file)
	}
	return f, nil
}

// An arrival is what has come of a frame's descriptors.
type arrival struct {
	descriptors []int
	isCut       bool // this process could not take more: its table of descriptors is full
}

// errInFlight: no descriptor can be sent.
var errInFlight = fmt.Errorf("too many descriptors of this user wait in unix sockets, in which stopped processes do not read: %w", unix.ETOOMANYREFS)

// withLimit adds to an error that says that there are too many descriptors how many this process may have.
func withLimit(err error) error {
	var l unix.Rlimit
	if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ETOOMANYREFS) || unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return err
	}
	return fmt.Errorf("%w (process %d may have %d)", err, os.Getpid(), l.Cur)
}

// receiveFiles fills bytes, and appends the descriptors that come with them.
func (c *conn) receiveFiles(bytes []byte, got *arrival) error {
	oob := make([]byte, unix.CmsgSpace((batch+1)*4))
	for len(bytes) > 0 {
		n, size, flags, _, err := c.socket.ReadMsgUnix(bytes, oob)
		messages, _ := unix.ParseSocketControlMessage(oob[:size]) // made by the kernel, so they are well-formed
		for i := range messages {
			some, _ := unix.ParseUnixRights(&messages[i]) // none in messages of other types
			got.descriptors = append(got.descriptors, some...)
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.EOF
		}
		got.isCut = got.isCut || flags&unix.MSG_CTRUNC != 0
		bytes = bytes[n:]
	}
	return nil
}

// Inherited returns a File for a descriptor that this process inherited, which it closes. The
// flags of what it refers to are left alone, unlike by os.NewFile.
func Inherited(fd int, name string) (*os.File, error) { return plainFile(fd, name) }

// plainFile returns a File for a descriptor, and closes the descriptor. The flags of what it
// refers to, which belong to all processes that have it, are left alone, also by the File's Fd
// method, and the poller of this process does not know it: os.NewFile would take a
// non-blocking descriptor for one of the poller's, so the File is made for another one.
func plainFile(fd int, name string) (*os.File, error) {
	defer unix.Close(fd)
	other, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	f := os.NewFile(uintptr(other), name)
	if err := unix.Dup3(fd, other, unix.O_CLOEXEC); err != nil {
		f.Close()
		return nil, os.NewSyscallError("dup3", err)
	}
	return f, nil
}

// closeDescriptors closes descriptors.
func closeDescriptors(descriptors []int) {
	for _, fd := range descriptors {
		unix.Close(fd)
	}
}

// closeFiles closes files.
func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// close closes the socket.
func (c *conn) close() { c.socket.Close() }
