package anthropic
import ("testing";"os";"net";"net/http";"context";"iter";"strings";"fmt";"time";"github.com/copilot-bridge/copilot-bridge/internal/bridge")
type live struct{}
func (live) Model(_ context.Context,n string)(bridge.ChatModel,error){ if strings.HasPrefix(n,"nope"){return bridge.ChatModel{},&bridge.Error{Code:bridge.CodeNotFound,Message:"no model "+n}}; return bridge.ChatModel{Model:bridge.Model{ID:n,ReasoningEfforts:[]string{"low","high"}},Name:n,Profile:bridge.ProfileChat},nil}
func (live) Answer(ctx context.Context,c bridge.Chat) iter.Seq2[bridge.Event,error]{ return func(y func(bridge.Event,error)bool){
 last:=c.Messages[len(c.Messages)-1]
 fmt.Println("CHAT",c.Model,c.Effort,len(c.Messages),last.Role,len(c.Tools),c.Choice,len(last.Text))
 if strings.Contains(last.Text,"BUSY"){ y(nil,&bridge.Error{Code:bridge.CodeBusy,Message:"full",RetryAfter:time.Second}); return }
 if strings.Contains(last.Text,"CRASH"){ y(bridge.TextDelta{Text:"so far "},nil); time.Sleep(100*time.Millisecond); y(nil,&bridge.Error{Code:bridge.CodeCrashed,Message:"The runtime exited"}); return }
 if strings.Contains(last.Text,"SLOW"){ for ctx.Err()==nil { if !y(bridge.TextDelta{Text:"tick "},nil){break}; time.Sleep(20*time.Millisecond)}; fmt.Println("ABORTED"); return }
 if last.Role==bridge.RoleUser && len(c.Tools)>0 { var calls []bridge.ToolCall
  for _,t:=range c.Tools { if t.Name=="Write"{ dir:=os.Getenv("LIVE_DIR"); calls=append(calls,bridge.ToolCall{ID:"functions.Write:0",Name:"Write",Args:map[string]any{"file_path":dir+"/hello.txt","content":"hi <there>\n"}}) }
   if t.Name=="weather"{ calls=append(calls,bridge.ToolCall{ID:"call_1",Name:"weather",Args:map[string]any{"city":"Rome"}},bridge.ToolCall{ID:"call:2",Name:"weather",Args:map[string]any{"city":"Oslo"}})} }
  if len(calls)>0 { y(bridge.ReasoningDelta{Text:"hm"},nil); y(bridge.TextDelta{Text:"Let me."},nil); y(bridge.MessageDone{Text:"Let me.",Calls:calls},nil); y(bridge.TurnEnded{Reason:bridge.EndTools,Usage:bridge.Usage{InputTokens:100,OutputTokens:20}},nil); return } }
 if c.ResponseFormat!=nil { t:=`{"title":"A <title>","a":1}`; y(bridge.TextDelta{Text:t},nil); y(bridge.MessageDone{Text:t},nil); y(bridge.TurnEnded{Reason:bridge.EndDone},nil); return }
 y(bridge.ReasoningDelta{Text:"think "},nil); y(bridge.ReasoningDelta{Text:"more"},nil)
 for _,w:=range []string{"All ","is ","done: ",last.CallID} { if !y(bridge.TextDelta{Text:w},nil){return} }
 y(bridge.MessageDone{Text:"All is done: "+last.CallID,Reasoning:"think more"},nil); y(bridge.TurnEnded{Reason:bridge.EndDone,Usage:bridge.Usage{InputTokens:100,OutputTokens:20}},nil) } }
func TestLive(t *testing.T){ l,err:=net.Listen("tcp","127.0.0.1:"+os.Getenv("LIVE_PORT")); if err!=nil{t.Fatal(err)}; d:=New(live{},Options{}); s:=&http.Server{Handler:http.HandlerFunc(func(w http.ResponseWriter,r *http.Request){ fmt.Println(r.Method,r.URL); d.ServeHTTP(w,r)})}; go s.Serve(l); time.Sleep(100*time.Second); s.Close() }
