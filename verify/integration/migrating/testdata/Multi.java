import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** Two clients take two locks with InterProcessMultiLock, in two orders: Multi <servers> <path> <seconds>. Says who got them. */
public class Multi {
    /** A lock whose answer takes until the other client has one, too. */
    static class Slow extends InterProcessMutex {
        final CountDownLatch both;

        Slow(CuratorFramework client, String path, CountDownLatch both) {
            super(client, path);
            this.both = both;
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) throws Exception {
            boolean got = super.acquire(time, unit);
            both.countDown();
            both.await();
            return got;
        }
    }

    public static void main(String[] args) throws Exception {
        CountDownLatch both = new CountDownLatch(2);
        String[][] orders = {{"a", "b"}, {"b", "a"}};
        boolean[] got = new boolean[2];
        Thread[] threads = new Thread[2];
        for (int i = 0; i < 2; i++) {
            final int number = i;
            CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryForever(50));
            client.start();
            threads[i] = new Thread(() -> {
                List<InterProcessLock> locks = List.of(
                    new Slow(client, args[1] + "/" + orders[number][0], both), new InterProcessMutex(client, args[1] + "/" + orders[number][1]));
                try {
                    got[number] = new InterProcessMultiLock(locks).acquire(Integer.parseInt(args[2]), TimeUnit.SECONDS);
                } catch (Exception e) {
                    e.printStackTrace();
                }
            });
            threads[i].start();
        }
        for (Thread t : threads) {
            t.join();
        }
        System.out.println(got[0] + " " + got[1]);
        System.exit(0);
    }
}
