import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryForever;

/** One scenario with Curator, from key=value arguments; prints how many turns there were in how many nanoseconds. */
public class Curator {
    interface Release {
        void run() throws Exception;
    }

    static final Map<String, String> told = new HashMap<>();

    static int number(String key) {
        return Integer.parseInt(told.get(key));
    }

    static Release acquire(CuratorFramework client, String path, String kind) throws Exception {
        if (kind.equals("permit")) {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, number("permits"));
            Lease lease = semaphore.acquire();
            return () -> semaphore.returnLease(lease);
        }
        InterProcessLock lock;
        if (kind.equals("lock")) {
            lock = new InterProcessMutex(client, path);
        } else {
            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
            lock = kind.equals("read") ? both.readLock() : both.writeLock();
        }
        lock.acquire();
        return lock::release;
    }

    static void check(List<Throwable> failed) {
        if (!failed.isEmpty()) {
            failed.get(0).printStackTrace();
            System.exit(1);
        }
    }

    static Thread start(List<Throwable> failed, Release work) {
        Thread t = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable e) {
                synchronized (failed) {
                    failed.add(e);
                }
            }
        });
        t.setDaemon(true);
        t.start();
        return t;
    }

    public static void main(String[] args) throws Exception {
        for (String a : args) {
            String[] pair = a.split("=", 2);
            told.put(pair[0], pair[1]);
        }
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < number("clients"); i++) {
            CuratorFramework c = CuratorFrameworkFactory.newClient(told.get("addr"), 30_000, 30_000, new RetryForever(50));
            c.start();
            clients.add(c);
        }
        for (CuratorFramework c : clients) {
            c.blockUntilConnected();
        }
        switch (told.get("shape")) {
            case "turns": turns(clients); break;
            case "drain": drain(clients.get(0)); break;
            default: crowd(clients.get(0)); break;
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // closing thousands of sessions would take longer than the measurement
    }

    static void turns(List<CuratorFramework> clients) throws Exception {
        String path = told.get("path");
        int lines = number("lines");
        int reads = number("reads");
        AtomicBoolean stop = new AtomicBoolean();
        AtomicLong done = new AtomicLong();
        List<Throwable> failed = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        int seats = clients.size() * number("workers");
        for (int i = 0; i < seats; i++) {
            final int seat = i;
            final CuratorFramework client = clients.get(i % clients.size());
            threads.add(start(failed, () -> {
                for (int turn = 0; !stop.get(); turn++) {
                    int draw = seat * 31 + turn * 17;
                    String kind = told.get("kind");
                    if (kind.equals("write") && draw % 100 < reads) {
                        kind = "read";
                    }
                    acquire(client, lines > 1 ? path + "-" + draw % lines : path, kind).run();
                    done.incrementAndGet();
                }
            }));
        }
        Thread.sleep(number("warm"));
        long turns = done.get();
        long since = System.nanoTime();
        do {
            Thread.sleep(number("window"));
            check(failed);
        } while (done.get() == turns);
        turns = done.get() - turns;
        long nanos = System.nanoTime() - since;
        System.out.println("turns " + turns + " nanos " + nanos);
    }

    static void await(CuratorFramework client, int n, List<Throwable> failed) throws Exception {
        String path = told.get("path");
        while (client.getChildren().forPath(path).size() < n) {
            check(failed);
            Thread.sleep(20);
        }
        Thread.sleep(500);
    }

    static void drain(CuratorFramework client) throws Exception {
        String path = told.get("path");
        int n = number("workers");
        Release first = acquire(client, path, "lock");
        List<Throwable> failed = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            threads.add(start(failed, () -> acquire(client, path, "lock").run()));
        }
        await(client, n + 1, failed);
        long since = System.nanoTime();
        first.run();
        for (Thread t : threads) {
            t.join();
        }
        check(failed);
        System.out.println("turns " + n + " nanos " + (System.nanoTime() - since));
    }

    static void crowd(CuratorFramework client) throws Exception {
        String path = told.get("path");
        int n = number("workers");
        List<Throwable> failed = new ArrayList<>();
        CountDownLatch inside = new CountDownLatch(n);
        CountDownLatch go = new CountDownLatch(1);
        CountDownLatch written = new CountDownLatch(1);
        for (int i = 0; i < n; i++) {
            start(failed, () -> {
                Release r = acquire(client, path, "read");
                inside.countDown();
                go.await();
                r.run();
            });
        }
        inside.await();
        start(failed, () -> {
            Release r = acquire(client, path, "write");
            written.countDown();
            r.run();
        });
        await(client, n + 1, failed);
        long since = System.nanoTime();
        go.countDown();
        written.await();
        check(failed);
        System.out.println("turns 1 nanos " + (System.nanoTime() - since));
    }
}
