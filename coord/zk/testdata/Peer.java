import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryForever;

/** Takes turns in a line with Curator: Peer <servers> <path> <umpire> <lock|rw> <workers> <turns>. */
public class Peer {
    public static void main(String[] args) throws Exception {
        String path = args[1];
        String[] umpire = args[2].split(":");
        boolean rw = args[3].equals("rw");
        int workers = Integer.parseInt(args[4]);
        int turns = Integer.parseInt(args[5]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryForever(50));
        client.start();
        List<Thread> threads = new ArrayList<>();
        List<Throwable> failed = new ArrayList<>();
        for (int i = 0; i < workers; i++) {
            final int number = i;
            Thread t = new Thread(() -> {
                try (Socket s = new Socket(umpire[0], Integer.parseInt(umpire[1]))) {
                    PrintWriter out = new PrintWriter(s.getOutputStream(), true);
                    BufferedReader in = new BufferedReader(new InputStreamReader(s.getInputStream()));
                    for (int turn = 0; turn < turns; turn++) {
                        String mode = "W";
                        InterProcessLock lock;
                        if (rw) {
                            mode = (turn + number) % 2 == 1 ? "R" : "W";
                            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
                            lock = mode.equals("R") ? both.readLock() : both.writeLock();
                        } else {
                            lock = new InterProcessMutex(client, path);
                        }
                        lock.acquire();
                        for (String word : new String[] {"enter", "leave"}) {
                            out.println(word + " " + mode + " curator" + number);
                            in.readLine();
                        }
                        lock.release();
                    }
                } catch (Throwable e) {
                    e.printStackTrace();
                    synchronized (failed) {
                        failed.add(e);
                    }
                }
            });
            t.start();
            threads.add(t);
        }
        for (Thread t : threads) {
            t.join();
        }
        client.close();
        System.exit(failed.isEmpty() ? 0 : 1);
    }
}
