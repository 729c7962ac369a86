package multi_test

import (
	"context"
	"fmt"

	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/multi"
)

func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()
	client := service.Client()

	both := multi.New(client, multi.Write("accounts/bert"), multi.Write("accounts/anna"), multi.Read("rates"))
	err := both.Do(context.Background(), func(ctx context.Context, h *multi.Hold) error {
		fmt.Println("inside, surely held:", h.Err() == nil)
		fmt.Println("each line has its token:", h.Token("accounts/anna") != 0 && h.Token("rates") != 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// inside, surely held: true
	// each line has its token: true
	// <nil>
}
